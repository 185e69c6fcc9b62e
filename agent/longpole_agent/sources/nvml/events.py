"""What NVIDIA's driver reports by itself: XID errors, and GPUs that it gives up.

The driver hands each event out once, to whoever registered before it happened; a thread waits for
them, so that none is lost between two samples.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import ctypes
import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from longpole_agent.sources.gpu import make_point
from longpole_agent.sources.nvml.answers import Handle, code_of
from longpole_agent.sources.source import Attributes, Point

_log = logging.getLogger(__name__)

# How long a wait lasts, which is how long closing takes at most; and a rest after an error.
_WAIT_MS = 250
_REST_S = 1.0
_CLOSE_S = 2.0
_MAX_KEPT = 256
_XID = pynvml.nvmlEventTypeXidCriticalError
_ANNOUNCED: Mapping[int, str] = {
    pynvml.nvmlEventTypeGpuUnavailableError: "the driver cannot use it any more",
    pynvml.nvmlEventTypeGpuRecoveryAction: "the driver asks for a recovery: see nvidia-smi -q",
}
_ENDS = frozenset({pynvml.NVML_ERROR_UNINITIALIZED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})


class DriverEvents:
    """Events of all GPUs of this node; none where the driver does not tell them.

    `register` each GPU, then `start`. After `close` it can be used anew; what was not read yet is
    kept.
    """

    def __init__(self) -> None:
        self._set: Any = None
        self._devices: dict[int | None, Attributes] = {}
        self._xids: deque[tuple[int, Attributes]] = deque(maxlen=_MAX_KEPT)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, handle: Handle, attributes: Attributes) -> None:
        """Listen to a GPU, where that is supported."""
        with suppress(pynvml.NVMLError):
            if self._set is None:
                self._set = pynvml.nvmlEventSetCreate()
            pynvml.nvmlDeviceRegisterEvents(handle, _choose_types(handle), self._set)
            self._devices[_address(handle)] = attributes

    def start(self) -> None:
        """Begin to wait, where a GPU is listened to."""
        if self._devices and self._thread is None:
            self._stop = threading.Event()
            self._thread = threading.Thread(
                target=self._run, args=(self._set, self._stop), name="nvml events", daemon=True
            )
            self._thread.start()

    def listens_to(self, handle: Handle) -> bool:
        """Tell whether errors of a GPU would be heard of."""
        return _address(handle) in self._devices

    def read(self, ts_ns: int) -> Sequence[Point]:
        """Return the XID errors that were reported since the last call."""
        points: list[Point] = []
        with suppress(IndexError):
            while True:
                number, attributes = self._xids.popleft()
                points.append(make_point("xid", number, ts_ns, attributes))
        return points

    def close(self) -> None:
        """Listen no more; call before NVML is shut down."""
        self._stop.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(_CLOSE_S)
        event_set, self._set, self._devices = self._set, None, {}
        # Somebody may still wait for it, in a driver that hangs.
        if event_set is not None and not (thread is not None and thread.is_alive()):
            with suppress(pynvml.NVMLError):
                pynvml.nvmlEventSetFree(event_set)

    def _run(self, event_set: Any, stop: threading.Event) -> None:  # noqa: ANN401 - pynvml has no types
        while not stop.is_set():
            try:
                event: Any = pynvml.nvmlEventSetWait_v2(event_set, _WAIT_MS)
            except pynvml.NVMLError as error:
                code = code_of(error)
                if code in _ENDS:
                    return
                if code != pynvml.NVML_ERROR_TIMEOUT:
                    stop.wait(_REST_S)
                continue
            self._note(event)

    def _note(self, event: Any) -> None:  # noqa: ANN401 - pynvml has no types
        attributes = self._devices.get(_address(event.device))
        if attributes is None:
            return
        kind = int(event.eventType)
        if kind & _XID:
            self._xids.append((int(event.eventData), attributes))
        for announced, text in _ANNOUNCED.items():
            if kind & announced:
                _log.warning("GPU %s: %s", attributes[0][1], text)


def _choose_types(handle: Handle) -> int:
    wanted = _XID
    for kind in _ANNOUNCED:
        wanted |= kind
    try:
        return wanted & int(pynvml.nvmlDeviceGetSupportedEventTypes(handle))
    except pynvml.NVMLError:
        return int(_XID)


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
