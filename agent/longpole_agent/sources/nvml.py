"""NVIDIA GPUs through NVML. Only this file and `nvml_faults` know pynvml.

A value the driver does not support is asked for once and then left out. A GPU that is lost drops
out, the others go on, and it comes back when NVML, initialised anew, has it again. Without a
driver there is one line in the log, and another attempt now and then.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pynvml

from longpole_agent.sources.gpu import make_point, make_process_point, name_gpu
from longpole_agent.sources.nvml_faults import XidEvents, read_ecc
from longpole_agent.sources.owners import ProcessOwners
from longpole_agent.sources.source import Attributes, Point
from longpole_agent.sources.timer import Timer

_log = logging.getLogger(__name__)

_PROCESSES_EVERY_NS = 10_000_000_000
# NVML's documentation: activity is averaged between two samples at least 100 ms apart.
_GPM_APART_NS = 100_000_000
_MIB = float(1 << 20)

_NOT_SUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_DEVICE_GONE = frozenset(
    {
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    }
)
_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this node (libnvidia-ml.so.1)",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to use the NVIDIA driver",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA library and the driver are of "
    "different versions: reboot, or restart the container",
    pynvml.NVML_ERROR_UNKNOWN: "the NVIDIA driver answers 'unknown error'; a container that lost "
    "its GPUs needs a restart",
}

_T = TypeVar("_T")
Handle = Any
Values = Sequence[tuple[str, float]]


def _read_utilization(handle: Handle) -> Values:
    rates: Any = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return [("utilization_ratio", float(rates.gpu) / 100.0)]


def _read_memory(handle: Handle) -> Values:
    # Version 2 counts what the driver reserves apart from what is used.
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return [("memory_used_bytes", int(memory.used)), ("memory_total_bytes", int(memory.total))]


def _read_memory_v1(handle: Handle) -> Values:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return [("memory_used_bytes", int(memory.used)), ("memory_total_bytes", int(memory.total))]


def _read_power_instant(handle: Handle) -> Values:
    # The plain call is an average over one second on most products.
    value: Any = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    if value.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(value.nvmlReturn)
    return [("power_watts", value.value.uiVal / 1000.0)]


def _read_power(handle: Handle) -> Values:
    return [("power_watts", float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000.0)]


def _read_energy(handle: Handle) -> Values:
    return [("energy_joules", float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000.0)]


def _read_temperature(handle: Handle) -> Values:
    sensor = pynvml.NVML_TEMPERATURE_GPU
    return [("temperature_celsius", float(pynvml.nvmlDeviceGetTemperature(handle, sensor)))]


def _read_sm_clock(handle: Handle) -> Values:
    megahertz = pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)
    return [("sm_clock_hz", megahertz * 1e6)]


def _read_clock_events(handle: Handle) -> Values:
    reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    return [("clocks_event_reasons", int(reasons))]


def _read_clock_events_old(handle: Handle) -> Values:
    reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return [("clocks_event_reasons", int(reasons))]


# Each value with the ways to get it, best first; the first that is supported is kept.
_READINGS: tuple[tuple[Callable[[Handle], Values], ...], ...] = (
    (_read_utilization,),
    (_read_memory, _read_memory_v1),
    (_read_power_instant, _read_power),
    (_read_energy,),
    (_read_temperature,),
    (_read_sm_clock,),
    (_read_clock_events, _read_clock_events_old),
)
# GPM metric, column, and the factor from NVML's unit (percent, MiB/s).
_GPM_METRICS = (
    (pynvml.NVML_GPM_METRIC_SM_UTIL, "sm_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_rx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_tx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_rx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_tx_bytes_per_s", _MIB),
)
_PROCESS_CALLS = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
)


class _GoneError(Exception):
    """The device does not answer any more."""


@dataclass(slots=True)
class _Gpm:
    """Two activity samples, between which the driver averages."""

    before: Any
    after: Any
    before_ns: int = 0


@dataclass(slots=True)
class _Device:
    uuid: str
    handle: Handle
    attributes: Attributes
    gpm: _Gpm | None = None
    # Ways to read each value, those that are not supported taken away.
    readings: list[list[Callable[[Handle], Values]]] = field(
        default_factory=lambda: [list(ways) for ways in _READINGS]
    )
    process_calls: list[Callable[[Handle], Any]] = field(
        default_factory=lambda: list(_PROCESS_CALLS)
    )
    ecc_calls: list[Callable[[Handle], Values]] = field(default_factory=lambda: [read_ecc])


class NvmlSource:
    """`Source` of this node's NVIDIA GPUs.

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
        self._devices: list[_Device] = []
        self._lost: set[str] = set()
        self._all_named = True
        self._said = ""
        self._processes = Timer()
        self._xids = XidEvents()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return the points of all GPUs that answer."""
        if not self._is_complete() and self._retry.is_due(ts_ns):
            self._initialize(ts_ns)
        with_processes = bool(self._devices) and self._processes.is_due(ts_ns)
        if with_processes:
            self._processes.set(ts_ns, _PROCESSES_EVERY_NS)
        points: list[Point] = []
        for device in list(self._devices):
            points += self._sample_or_drop(device, ts_ns, with_processes=with_processes)
        # A GPU that just fell off the bus is still told of.
        points += self._xids.read(ts_ns)
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
            reason = _HINTS.get(_code(error), f"NVML: {error}")
            self._say(logging.WARNING, f"no GPUs: {reason}; going on without")
            self._shut_down()
            return
        for index in range(num_devices):
            with suppress(pynvml.NVMLError):
                self._devices.append(self._open_device(index))
        self._all_named = len(self._devices) == num_devices
        self._say(logging.INFO, f"{len(self._devices)} of {num_devices} GPUs found")

    def _open_device(self, index: int) -> _Device:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
        model = str(pynvml.nvmlDeviceGetName(handle))
        device = _Device(uuid, handle, name_gpu(uuid, index, model))
        self._xids.register(handle, device.attributes)
        if self._with_gpm:
            with suppress(pynvml.NVMLError):
                if pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                    device.gpm = _Gpm(pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc())
        return device

    def _sample_or_drop(
        self, device: _Device, ts_ns: int, *, with_processes: bool
    ) -> Sequence[Point]:
        try:
            points = _sample_device(device, ts_ns)
            if with_processes:
                points += self._read_processes(device, ts_ns)
                points += self._read_faults(device, ts_ns)
        except _GoneError as error:
            self._drop(device, ts_ns, str(error))
            return ()
        if device.uuid in self._lost:
            self._lost.discard(device.uuid)
            self._say(logging.INFO, f"GPU {device.uuid} is back")
        if self._is_complete():
            self._retry_ns = self._first_retry_ns
        return points

    def _read_faults(self, device: _Device, ts_ns: int) -> list[Point]:
        """Return memory errors, and that no XID error was heard of where one would be."""
        values = list(_ask(device.handle, device.ecc_calls) or ())
        if self._xids.listens_to(device.handle):
            values.append(("xid", 0))
        return [make_point(column, value, ts_ns, device.attributes) for column, value in values]

    def _read_processes(self, device: _Device, ts_ns: int) -> list[Point]:
        """Return a point per process that holds memory on the device."""
        points: list[Point] = []
        for process in _ask(device.handle, device.process_calls) or ():
            pid = int(process.pid)
            owner = () if self._owners is None else self._owners.find(pid)
            points.append(
                make_process_point(pid, process.usedGpuMemory, ts_ns, device.attributes, owner)
            )
        return points

    def _drop(self, device: _Device, ts_ns: int, reason: str) -> None:
        self._devices.remove(device)
        if device.uuid in self._lost:  # found again, and still lost
            return
        self._lost.add(device.uuid)
        self._retry.set(ts_ns, self._first_retry_ns)
        self._say(logging.WARNING, f"GPU {device.uuid} is lost ({reason}); going on without it")

    def _shut_down(self) -> None:
        for device in self._devices:
            if device.gpm is not None:
                with suppress(pynvml.NVMLError):
                    pynvml.nvmlGpmSampleFree(device.gpm.before)
                    pynvml.nvmlGpmSampleFree(device.gpm.after)
        self._devices = []
        self._xids.close()
        if self._initialized:
            self._initialized = False
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def _say(self, level: int, message: str) -> None:
        """Log a message unless it was the last one."""
        if message != self._said:
            _log.log(level, "%s", message)
        self._said = message


def _code(error: Exception) -> int:
    return int(getattr(error, "value", pynvml.NVML_ERROR_UNKNOWN))


def _ask(handle: Handle, ways: list[Callable[[Handle], _T]]) -> _T | None:
    """Ask in the best way that is supported; ways that are not are taken away."""
    if not ways:
        return None
    try:
        return ways[0](handle)
    except pynvml.NVMLError as error:
        code = _code(error)
        if code in _DEVICE_GONE:
            raise _GoneError(str(error)) from error
        if code not in _NOT_SUPPORTED:
            return None
        del ways[0]
    return _ask(handle, ways)


def _sample_device(device: _Device, ts_ns: int) -> list[Point]:
    values = [value for ways in device.readings for value in _ask(device.handle, ways) or ()]
    if not values:
        raise _GoneError("it answers nothing")
    values += _read_activity(device, ts_ns)
    return [make_point(column, value, ts_ns, device.attributes) for column, value in values]


def _read_activity(device: _Device, ts_ns: int) -> Values:
    """Return activity since the sample before, as far as each counter is supported."""
    gpm = device.gpm
    if gpm is None or 0 <= ts_ns - gpm.before_ns < _GPM_APART_NS:
        return ()
    try:
        pynvml.nvmlGpmSampleGet(device.handle, gpm.after)
        is_first, gpm.before_ns = not gpm.before_ns, ts_ns
        older, newer = gpm.before, gpm.after
        gpm.before, gpm.after = newer, older
        if is_first:
            return ()
        answer = _ask_gpm(older, newer)
    except pynvml.NVMLError as error:
        if _code(error) in _DEVICE_GONE:
            raise _GoneError(str(error)) from error
        if _code(error) in _NOT_SUPPORTED:
            device.gpm = None
        return ()
    values: list[tuple[str, float]] = []
    for metric, (_, column, factor) in zip(answer.metrics, _GPM_METRICS, strict=False):
        if metric.nvmlReturn == pynvml.NVML_SUCCESS and math.isfinite(metric.value):
            values.append((column, float(metric.value) * factor))
    return values


def _ask_gpm(older: Any, newer: Any) -> Any:  # noqa: ANN401 - pynvml has no types
    question: Any = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(_GPM_METRICS)
    question.sample1, question.sample2 = older, newer
    for metric, (metric_id, _, _) in zip(question.metrics, _GPM_METRICS, strict=False):
        metric.metricId = metric_id
    return pynvml.nvmlGpmMetricsGet(question)
