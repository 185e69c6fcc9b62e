"""Peak rates of accelerators by exact device name: arithmetic without sparsity, and memory.

Names are those that the driver reports, so that an H200 is never taken for an H20. Rates are the
vendors' data sheets; H100, H200 and A100 agree with the figures that verl divides by.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Precision = Literal["bf16", "fp8"]


@dataclass(frozen=True, slots=True)
class Peaks:
    """What a device does at the most.

    Attributes:
        bf16, fp8: TFLOP/s, dense, accumulated in fp32; None where it has no such mode.
        memory: TB/s; None where devices of one name differ.
    """

    bf16: float
    fp8: float | None
    memory: float | None


_HOPPER_SXM = Peaks(989.0, 1978.0, 3.35)
_HOPPER_PCIE = Peaks(756.0, 1513.0, 2.0)
_AMPERE_40GB = Peaks(312.0, None, 1.555)
_AMPERE_80GB = Peaks(312.0, None, 2.039)
_AMPERE_80GB_PCIE = Peaks(312.0, None, 1.935)

_PEAKS: Mapping[str, Peaks] = MappingProxyType(
    {
        "h100 80gb hbm3": _HOPPER_SXM,
        "h100 64gb hbm3": Peaks(989.0, 1978.0, None),
        "h100 96gb hbm3": Peaks(989.0, 1978.0, None),
        "h100 sxm5": _HOPPER_SXM,
        "h100": _HOPPER_SXM,
        "h100 pcie": _HOPPER_PCIE,
        "h100 nvl": Peaks(835.0, 1671.0, 3.9),
        "h200": Peaks(989.0, 1978.0, 4.8),
        "h200 nvl": Peaks(989.0, 1978.0, 4.8),
        "gh200 480gb": Peaks(989.0, 1978.0, 4.0),
        "gh200 120gb": Peaks(989.0, 1978.0, 4.0),
        "gh200 144g hbm3e": Peaks(989.0, 1978.0, 4.9),
        "h800": _HOPPER_SXM,
        "h800 sxm5": _HOPPER_SXM,
        "h800 pcie": _HOPPER_PCIE,
        "h20": Peaks(148.0, 296.0, 4.0),
        "h20-3e": Peaks(148.0, 296.0, None),
        "b200": Peaks(2250.0, 4500.0, 8.0),
        "gb200": Peaks(2500.0, 5000.0, 8.0),
        "a100": Peaks(312.0, None, None),
        "a100-sxm4-40gb": _AMPERE_40GB,
        "a100-sxm4-80gb": _AMPERE_80GB,
        "a100-sxm-80gb": _AMPERE_80GB,
        "a100-pcie-40gb": _AMPERE_40GB,
        "a100 80gb pcie": _AMPERE_80GB_PCIE,
        "a800": Peaks(312.0, None, None),
        "a800-sxm4-40gb": _AMPERE_40GB,
        "a800-sxm4-80gb": _AMPERE_80GB,
        "a800 80gb pcie": _AMPERE_80GB_PCIE,
        "a40": Peaks(149.7, None, 0.696),
        "rtx a6000": Peaks(154.8, None, 0.768),
        "l40s": Peaks(362.05, 733.0, 0.864),
        "l40": Peaks(181.05, 362.0, 0.864),
        "l20": Peaks(119.5, 239.0, 0.864),
        "l4": Peaks(121.0, 242.5, 0.3),
        "rtx 6000 ada generation": Peaks(364.2, 728.5, 0.96),
        "geforce rtx 4090": Peaks(165.2, 330.3, 1.008),
        "geforce rtx 3090": Peaks(71.0, None, 0.936),
        "amd instinct mi300x": Peaks(1307.4, 2614.9, 5.3),
        "amd instinct mi325x": Peaks(1307.4, 2614.9, 6.0),
        "amd instinct mi350x": Peaks(2300.0, 4600.0, 8.0),
        "amd instinct mi355x": Peaks(2500.0, 5000.0, 8.0),
    }
)
DEVICE_NAMES = tuple(_PEAKS)


def find_peak(device_name: str | None, precision: Precision = "bf16") -> float | None:
    """Return the dense peak rate of a device in FLOP/s, or None when it is not known.

    Args:
        device_name: Name as the driver reports it, e.g. `NVIDIA H100 80GB HBM3`.
        precision: Number format of the matrix products.
    """
    peaks = _find(device_name)
    if peaks is None:
        return None
    tflops = peaks.bf16 if precision == "bf16" else peaks.fp8
    return None if tflops is None else tflops * 1e12


def find_memory_peak(device_name: str | None) -> float | None:
    """Return the peak memory bandwidth of a device in bytes/s, or None when it is not known."""
    peaks = _find(device_name)
    return None if peaks is None or peaks.memory is None else peaks.memory * 1e12


def _find(device_name: str | None) -> Peaks | None:
    if not device_name:
        return None
    name = " ".join(device_name.lower().split())
    return _PEAKS.get(name.removeprefix("nvidia ").removesuffix(" oam"))
