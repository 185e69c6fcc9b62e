"""Peak arithmetic rates of GPUs by exact device name."""

from typing import Literal

Precision = Literal["bf16", "fp8"]


def find_peak(device_name: str | None, precision: Precision = "bf16") -> float | None:
    """Return the dense peak rate of a device in FLOP/s, or None when it is not known."""
    raise NotImplementedError
