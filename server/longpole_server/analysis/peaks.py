"""Peak arithmetic rates of accelerators by exact device name, without structured sparsity.

Names are those that the driver reports, so that an H200 is never taken for an H20. Rates are the
vendors' data sheets; H100, H200 and A100 agree with the figures that verl divides by.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Precision = Literal["bf16", "fp8"]

# (bf16, fp8) in TFLOP/s, dense, accumulated in fp32; None where the hardware has no such mode.
_HOPPER_SXM = (989.0, 1978.0)
_HOPPER_PCIE = (756.0, 1513.0)
_HOPPER_NVL = (835.0, 1671.0)
_AMPERE = (312.0, None)

_PEAKS_TFLOPS: Mapping[str, tuple[float, float | None]] = MappingProxyType(
    {
        "h100 80gb hbm3": _HOPPER_SXM,
        "h100 64gb hbm3": _HOPPER_SXM,
        "h100 96gb hbm3": _HOPPER_SXM,
        "h100 sxm5": _HOPPER_SXM,
        "h100": _HOPPER_SXM,
        "h100 pcie": _HOPPER_PCIE,
        "h100 nvl": _HOPPER_NVL,
        "h200": _HOPPER_SXM,
        "h200 nvl": _HOPPER_NVL,
        "gh200 480gb": _HOPPER_SXM,
        "gh200 120gb": _HOPPER_SXM,
        "gh200 144g hbm3e": _HOPPER_SXM,
        "h800": _HOPPER_SXM,
        "h800 sxm5": _HOPPER_SXM,
        "h800 pcie": _HOPPER_PCIE,
        "h20": (148.0, 296.0),
        "h20-3e": (148.0, 296.0),
        "b200": (2250.0, 4500.0),
        "gb200": (2500.0, 5000.0),
        "a100-sxm4-40gb": _AMPERE,
        "a100-sxm4-80gb": _AMPERE,
        "a100-sxm-80gb": _AMPERE,
        "a100-pcie-40gb": _AMPERE,
        "a100 80gb pcie": _AMPERE,
        "a800-sxm4-40gb": _AMPERE,
        "a800-sxm4-80gb": _AMPERE,
        "a800 80gb pcie": _AMPERE,
        "a40": (149.7, None),
        "rtx a6000": (154.8, None),
        "l40s": (362.05, 733.0),
        "l40": (181.05, 362.0),
        "l20": (119.5, 239.0),
        "l4": (121.0, 242.5),
        "rtx 6000 ada generation": (364.2, 728.5),
        "geforce rtx 4090": (165.2, 330.3),
        "geforce rtx 3090": (71.0, None),
        "amd instinct mi300x": (1307.4, 2614.9),
        "amd instinct mi325x": (1307.4, 2614.9),
        "amd instinct mi350x": (2300.0, 4600.0),
        "amd instinct mi355x": (2500.0, 5000.0),
    }
)


def find_peak(device_name: str | None, precision: Precision = "bf16") -> float | None:
    """Return the dense peak rate of a device in FLOP/s, or None when it is not known.

    Args:
        device_name: Name as the driver reports it, e.g. `NVIDIA H100 80GB HBM3`.
        precision: Number format of the matrix products.
    """
    if not device_name:
        return None
    name = " ".join(device_name.lower().split())
    peaks = _PEAKS_TFLOPS.get(name.removeprefix("nvidia ").removesuffix(" oam"))
    if peaks is None:
        return None
    tflops = peaks[0] if precision == "bf16" else peaks[1]
    return None if tflops is None else tflops * 1e12
