"""`Source` of this node's NVIDIA GPUs.

A value the driver does not support is asked for once and then left out. A GPU that is lost drops
out, the others go on, and it comes back when NVML, initialised anew, has it again. Without a
driver there is one line in the log, and another attempt now and then.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pynvml

from longpole_agent.sources.gpu import make_point
from longpole_agent.sources.nvml.answers import CURED_BY_RESTART, GoneError, code_of, describe
from longpole_agent.sources.nvml.device import (
    Device,
    list_mig_handles,
    open_device,
    open_mig_device,
)
from longpole_agent.sources.nvml.events import DriverEvents
from longpole_agent.sources.owners import ProcessOwners
from longpole_agent.sources.source import Point
from longpole_agent.sources.timer import Timer

_log = logging.getLogger(__name__)

_SLOWLY_NS = 10_000_000_000
# So many times in vain, and it is not a driver that is being restarted.
_ATTEMPTS_BEFORE_RESTART = 5


class NvmlSource:
    """`Source` of GPUs and MIG devices.

    Args:
        owners: Tells the job and the pod of a process that holds memory; None tells nothing.
        with_gpm: Also read activity counters (Hopper and newer). They share hardware with DCGM.
        first_retry_s: Time until a missing driver or GPU is looked for again; doubles ...
        max_retry_s: ... up to this.
    """

    name = "nvml"

    def __init__(
        self,
        owners: ProcessOwners | None = None,
        *,
        with_gpm: bool = True,
        first_retry_s: float = 5.0,
        max_retry_s: float = 60.0,
    ) -> None:
        self._owners = owners
        self._with_gpm = with_gpm
        self._first_retry_ns = int(first_retry_s * 1e9)
        self._max_retry_ns = int(max_retry_s * 1e9)
        self._retry_ns = self._first_retry_ns
        self._retry = Timer()
        self._initialized = False
        self._devices: list[Device] = []
        # By uuid of the GPU.
        self._mig_devices: dict[str, dict[str, Device]] = {}
        self._lost: dict[str, str] = {}
        self._all_named = True
        self._said = ""
        self._slowly = Timer()
        self._events = DriverEvents()
        self._had_gpus = False
        self._failure = ""
        self._failure_code = pynvml.NVML_SUCCESS
        self._num_in_vain = 0

    @property
    def num_gpus(self) -> int:
        """How many GPUs answer."""
        return len(self._devices)

    @property
    def num_lost(self) -> int:
        """How many GPUs have answered and do not any more."""
        return len(self._lost)

    @property
    def trouble(self) -> str:
        """What keeps GPUs that were there from being sampled, "" when nothing does.

        A node that never had any is in no trouble, unless its driver is there and refuses.
        """
        if self._failure and (self._had_gpus or self._failure_code in CURED_BY_RESTART):
            return self._failure
        lost = list(self._lost.items())
        return "; ".join(f"GPU {uuid} is lost ({why})" for uuid, why in lost)

    @property
    def needs_restart(self) -> bool:
        """Whether only a restart of this container or process brings the GPUs back."""
        return (
            self._had_gpus
            and self._num_in_vain >= _ATTEMPTS_BEFORE_RESTART
            and self._failure_code in CURED_BY_RESTART
        )

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the points of all devices that answer."""
        if not self._is_complete() and self._retry.is_due(ts_ns):
            self._initialize(ts_ns)
        slowly = bool(self._devices) and self._slowly.is_due(ts_ns)
        if slowly:
            self._slowly.set(ts_ns, _SLOWLY_NS)
        points: list[Point] = []
        for device in list(self._devices):
            points += self._sample_or_drop(device, ts_ns, slowly=slowly)
        # A GPU that just fell off the bus is still told of.
        points += self._events.read(ts_ns)
        return points

    def close(self) -> None:
        """Give NVML back."""
        self._shut_down()

    def _is_complete(self) -> bool:
        return self._initialized and self._all_named and not self._lost

    def _initialize(self, ts_ns: int) -> None:
        """Begin anew with the driver; devices that were lost may be back."""
        self._shut_down()
        self._retry.set(ts_ns, self._retry_ns)
        self._retry_ns = min(2 * self._retry_ns, self._max_retry_ns)
        try:
            pynvml.nvmlInit()
            self._initialized = True
            num_devices = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            self._fail(describe(error), code_of(error))
            self._shut_down()
            return
        self._open_devices(num_devices)
        if self._devices:
            self._had_gpus = True
            self._failure, self._failure_code = "", pynvml.NVML_SUCCESS
        elif self._had_gpus:
            self._fail("the GPUs that were here have gone", self._failure_code)
        self._say(logging.INFO, f"{len(self._devices)} of {num_devices} GPUs found")

    def _open_devices(self, num_devices: int) -> None:
        for index in range(num_devices):
            try:
                device = open_device(index, with_activity=self._with_gpm)
            except pynvml.NVMLError as error:
                self._failure_code = code_of(error)
                continue
            self._devices.append(device)
            self._events.register(device.handle, device.attributes)
        self._all_named = len(self._devices) == num_devices
        self._events.start()

    def _fail(self, reason: str, code: int) -> None:
        self._failure, self._failure_code = reason, code
        self._num_in_vain += 1
        self._say(logging.WARNING, f"no GPUs: {reason}; going on without")

    def _sample_or_drop(self, device: Device, ts_ns: int, *, slowly: bool) -> Sequence[Point]:
        try:
            points = device.sample(ts_ns)
            if slowly:
                points += device.sample_slowly(ts_ns)
                points += self._tell_no_xid(device, ts_ns)
                self._look_for_mig(device)
            parts = list(self._mig_devices.get(device.uuid, {}).values())
            # The programs on a divided GPU are on its parts.
            for holder in parts or [device]:
                points += self._sample_part(holder, ts_ns, slowly=slowly, is_whole=not parts)
        except GoneError as error:
            self._drop(device, ts_ns, error)
            return ()
        self._note_answer(device)
        return points

    def _sample_part(
        self, device: Device, ts_ns: int, *, slowly: bool, is_whole: bool
    ) -> Sequence[Point]:
        """Return what a MIG device says; of a whole GPU, its processes alone are missing."""
        points: list[Point] = []
        try:
            if not is_whole:
                points += device.sample(ts_ns)
            if slowly:
                points += device.list_processes(ts_ns, self._owners)
        except GoneError:
            if is_whole:
                raise
            # Somebody divides the GPU anew: the next look at it finds what there is then.
        return points

    def _look_for_mig(self, device: Device) -> None:
        """Find the parts of a GPU, which may be divided anew at any time."""
        handles = list_mig_handles(device.handle)
        known = self._mig_devices.setdefault(device.uuid, {})
        for uuid in known.keys() - handles.keys():
            known.pop(uuid).close()
        for uuid in handles.keys() - known.keys():
            with suppress(pynvml.NVMLError):
                known[uuid] = open_mig_device(
                    device, uuid, handles[uuid], with_activity=self._with_gpm
                )

    def _tell_no_xid(self, device: Device, ts_ns: int) -> Iterator[Point]:
        """Say that no XID error was heard of, where one would be."""
        if self._events.listens_to(device.handle):
            yield make_point("xid", 0, ts_ns, device.attributes)

    def _note_answer(self, device: Device) -> None:
        if self._lost.pop(device.uuid, None) is not None:
            self._say(logging.INFO, f"GPU {device.uuid} is back")
        if self._is_complete():
            self._retry_ns = self._first_retry_ns
            self._num_in_vain = 0

    def _drop(self, device: Device, ts_ns: int, error: GoneError) -> None:
        self._devices.remove(device)
        self._close_devices([device, *self._mig_devices.pop(device.uuid, {}).values()])
        self._failure_code = error.code
        if device.uuid in self._lost:  # found again, and still lost
            self._num_in_vain += not self._devices
            return
        self._lost[device.uuid] = str(error)
        self._retry.set(ts_ns, self._first_retry_ns)
        self._say(logging.WARNING, f"GPU {device.uuid} is lost ({error}); going on without it")

    def _shut_down(self) -> None:
        self._close_devices(self._devices)
        for parts in self._mig_devices.values():
            self._close_devices(list(parts.values()))
        self._devices, self._mig_devices = [], {}
        self._events.close()
        if self._initialized:
            self._initialized = False
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def _close_devices(self, devices: Sequence[Device]) -> None:
        for device in devices:
            device.close()

    def _say(self, level: int, message: str) -> None:
        """Log a message unless it was the last one."""
        if message != self._said:
            _log.log(level, "%s", message)
        self._said = message
