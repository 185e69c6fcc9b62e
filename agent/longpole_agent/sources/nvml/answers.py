"""What NVML answers when it does not answer, and what follows from it.

A value that is not supported is not asked for again. A device that is lost drops out. Where NVML
itself has gone, everything begins anew.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pynvml

_T = TypeVar("_T")
Handle = Any
# Column of a GPU sample and its value.
Values = Sequence[tuple[str, float]]

NOT_SUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        # How older drivers answer a field that they do not know.
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
_DEVICE_GONE = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
# Nothing but a restart of the container helps: it has lost the device files, or its library is not
# the driver's any more.
CURED_BY_RESTART = frozenset({pynvml.NVML_ERROR_UNKNOWN, pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH})
_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this node (libnvidia-ml.so.1)",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to use the NVIDIA driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the driver are of "
    "different versions: reboot, or restart the container",
    pynvml.NVML_ERROR_UNKNOWN: "the NVIDIA driver answers 'unknown error'; a container that lost "
    "its GPUs needs a restart",
}


class GoneError(Exception):
    """The device does not answer any more.

    Attributes:
        code: NVML's, `NVML_ERROR_UNKNOWN` where it only says nothing.
    """

    def __init__(self, reason: str, code: int = pynvml.NVML_ERROR_UNKNOWN) -> None:
        super().__init__(reason)
        self.code = code


def code_of(error: Exception) -> int:
    """Return NVML's number of an error."""
    return int(getattr(error, "value", pynvml.NVML_ERROR_UNKNOWN))


def describe(error: Exception) -> str:
    """Return what an error means, for people."""
    return _HINTS.get(code_of(error), f"NVML: {error}")


def check_present(code: int) -> None:
    """Raise `GoneError` when a code says that the device has gone."""
    if code in _DEVICE_GONE:
        raise GoneError(str(pynvml.NVMLError(code)), code)


def ask(handle: Handle, ways: list[Callable[[Handle], _T]]) -> _T | None:
    """Ask in the best way that is supported; ways that are not are taken away.

    Raises:
        GoneError: The device does not answer any more.
    """
    if not ways:
        return None
    try:
        return ways[0](handle)
    except pynvml.NVMLError as error:
        code = code_of(error)
        check_present(code)
        if code not in NOT_SUPPORTED:
            return None
        del ways[0]
    return ask(handle, ways)
