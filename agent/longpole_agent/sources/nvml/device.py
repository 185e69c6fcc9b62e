"""One GPU, or one MIG device of it, and everything that is read of it."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from longpole_agent.sources.gpu import make_point, make_process_point, name_gpu, name_mig
from longpole_agent.sources.nvml import fields, readings
from longpole_agent.sources.nvml.activity import Activity, open_activity, open_mig_activity
from longpole_agent.sources.nvml.answers import GoneError, Handle, ask
from longpole_agent.sources.nvml.fields import Field, FieldBatch
from longpole_agent.sources.nvml.readings import Reading, Way
from longpole_agent.sources.owners import ProcessOwners
from longpole_agent.sources.source import Attributes, Point

_MIG_MARK = " MIG "


class Device:
    """A device that has been found, with what it has been seen to support.

    Args:
        handle: NVML's.
        attributes: Of its points.
        activity: Its activity counters; closed with it.
        fast, slow: What is asked for one by one.
        fast_fields, slow_fields: What is asked for in one call.
    """

    def __init__(
        self,
        handle: Handle,
        attributes: Attributes,
        activity: Activity | None,
        fast: Sequence[Reading],
        slow: Sequence[Reading] = (),
        fast_fields: Sequence[Field] = (),
        slow_fields: Sequence[Field] = (),
    ) -> None:
        self.handle = handle
        self.attributes = attributes
        self._activity = activity
        self._fast = _Tier(fast, fast_fields)
        self._slow = _Tier(slow, slow_fields)
        self._process_calls: list[Callable[[Handle], Any]] = list(readings.PROCESS_CALLS)

    @property
    def uuid(self) -> str:
        """NVML's name of it, the same after a reset."""
        return str(self.attributes[0][1])

    def sample(self, ts_ns: int) -> list[Point]:
        """Return what changes all the time.

        Raises:
            GoneError: It does not answer any more.
        """
        activity = self._activity
        counted = () if activity is None else activity.columns
        values = self._fast.read(self.handle, ts_ns, counted)
        if activity is not None:
            values.update(activity.read(ts_ns))
        if not values:
            raise GoneError("it answers nothing")
        return self._make_points(values, ts_ns)

    def sample_slowly(self, ts_ns: int) -> list[Point]:
        """Return what changes rarely.

        Raises:
            GoneError: It does not answer any more.
        """
        return self._make_points(self._slow.read(self.handle, ts_ns), ts_ns)

    def list_processes(self, ts_ns: int, owners: ProcessOwners | None) -> list[Point]:
        """Return a point for each process that holds memory on it.

        Raises:
            GoneError: It does not answer any more.
        """
        points: list[Point] = []
        for process in ask(self.handle, self._process_calls) or ():
            pid = int(process.pid)
            owner = () if owners is None else owners.find(pid)
            memory_bytes = process.usedGpuMemory
            points.append(make_process_point(pid, memory_bytes, ts_ns, self.attributes, owner))
        return points

    def close(self) -> None:
        """Give back what it holds."""
        if self._activity is not None:
            self._activity.close()

    def _make_points(self, values: dict[str, float], ts_ns: int) -> list[Point]:
        return [
            make_point(column, value, ts_ns, self.attributes) for column, value in values.items()
        ]


class _Tier:
    """Fields and readings that are asked for together."""

    def __init__(self, single: Sequence[Reading], batched: Sequence[Field]) -> None:
        self._batch = FieldBatch(batched)
        self._readings: list[tuple[str, list[Way]]] = [(name, list(ways)) for name, ways in single]

    def read(self, handle: Handle, ts_ns: int, without: Collection[str] = ()) -> dict[str, float]:
        values = self._batch.read(handle, ts_ns, without)
        batched = self._batch.columns
        for column, ways in self._readings:
            if column not in batched:
                values.update(ask(handle, ways) or ())
        return values


def open_device(index: int, *, with_activity: bool) -> Device:
    """Return the GPU of an index.

    Raises:
        NVMLError: It does not answer.
    """
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    model = str(pynvml.nvmlDeviceGetName(handle))
    return Device(
        handle,
        name_gpu(uuid, index, model),
        open_activity(handle) if with_activity else None,
        readings.FAST,
        readings.SLOW,
        (*fields.FAST, *fields.RATES),
        fields.SLOW,
    )


def list_mig_handles(handle: Handle) -> dict[str, Handle]:
    """Return the MIG devices of a GPU by uuid; none when it is not divided."""
    found: dict[str, Handle] = {}
    with suppress(pynvml.NVMLError):
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
        if current == pynvml.NVML_DEVICE_MIG_ENABLE:
            for mig_handle in _iterate_mig(handle):
                found[str(pynvml.nvmlDeviceGetUUID(mig_handle))] = mig_handle
    return found


def open_mig_device(parent: Device, uuid: str, handle: Handle, *, with_activity: bool) -> Device:
    """Return a MIG device of a GPU.

    Raises:
        NVMLError: It does not answer.
    """
    model = str(pynvml.nvmlDeviceGetName(handle))
    attributes = dict(parent.attributes)
    activity = None
    if with_activity:
        instance = int(pynvml.nvmlDeviceGetGpuInstanceId(handle))
        activity = open_mig_activity(parent.handle, instance)
    profile = model.partition(_MIG_MARK)[2]
    return Device(
        handle,
        name_mig(uuid, int(attributes["gpu.index"]), model, parent.uuid, profile),
        activity,
        readings.OF_MIG,
    )


def _iterate_mig(handle: Handle) -> Iterator[Handle]:
    for slot in range(int(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))):
        # Slots without a device answer NOT_FOUND.
        with suppress(pynvml.NVMLError):
            yield pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
