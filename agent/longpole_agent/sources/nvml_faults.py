"""What NVIDIA's driver says of trouble: XID errors as they come, memory errors since boot."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pynvml

from longpole_agent.sources.gpu import make_point
from longpole_agent.sources.source import Attributes, Point

_Handle = Any
# A driver that reports without end is heard of again at the next sample.
_MAX_EVENTS = 32
_WAITED_FOR = pynvml.nvmlEventTypeXidCriticalError


class XidEvents:
    """XID errors of all GPUs of this node; none where the driver does not tell them.

    The driver hands each event out once, to whoever registered before it happened.
    """

    def __init__(self) -> None:
        self._set: Any = None
        self._devices: dict[int | None, Attributes] = {}

    def register(self, handle: _Handle, attributes: Attributes) -> None:
        """Listen to a GPU, where that is supported."""
        with suppress(pynvml.NVMLError):
            if self._set is None:
                self._set = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, _WAITED_FOR, self._set)
            self._devices[_address(handle)] = attributes

    def listens_to(self, handle: _Handle) -> bool:
        """Tell whether errors of a GPU would be heard of."""
        return _address(handle) in self._devices

    def read(self, ts_ns: int) -> Sequence[Point]:
        """Return what was reported since the last call, without waiting."""
        points: list[Point] = []
        if not self._devices:
            return points
        with suppress(pynvml.NVMLError):
            while len(points) < _MAX_EVENTS:
                event: Any = pynvml.nvmlEventSetWait_v2(self._set, 0)
                attributes = self._devices.get(_address(event.device))
                if attributes is not None and event.eventType & _WAITED_FOR:
                    points.append(make_point("xid", int(event.eventData), ts_ns, attributes))
        return points

    def close(self) -> None:
        """Listen no more; call before NVML is shut down."""
        event_set, self._set, self._devices = self._set, None, {}
        if event_set is not None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(event_set)


def read_ecc(handle: _Handle) -> Sequence[tuple[str, float]]:
    """Return memory errors since boot that were not corrected. Raises `NVMLError`."""
    number = pynvml.nvmlDeviceGetTotalEccErrors(
        handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return [("ecc_uncorrected_errors", int(number))]


def _address(handle: _Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
