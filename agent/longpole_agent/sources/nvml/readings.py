"""Values that are asked for one by one."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pynvml

from longpole_agent.sources.nvml.answers import Handle, Values

Way: TypeAlias = Callable[[Handle], Values]
# What is read, and the ways to it, best first; the first that is supported is kept.
Reading: TypeAlias = tuple[str, tuple[Way, ...]]


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


def _read_max_sm_clock(handle: Handle) -> Values:
    megahertz = pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)
    return [("sm_clock_max_hz", megahertz * 1e6)]


def _read_clock_events(handle: Handle) -> Values:
    reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    return [("clocks_event_reasons", int(reasons))]


def _read_clock_events_old(handle: Handle) -> Values:
    reasons = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return [("clocks_event_reasons", int(reasons))]


def _read_uncorrected(handle: Handle) -> Values:
    number = pynvml.nvmlDeviceGetTotalEccErrors(
        handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return [("ecc_uncorrected_errors", int(number))]


def _read_corrected(handle: Handle) -> Values:
    number = pynvml.nvmlDeviceGetTotalEccErrors(
        handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return [("ecc_corrected_errors", int(number))]


_MEMORY: Reading = ("memory_used_bytes", (_read_memory, _read_memory_v1))
# At every sample. Power and energy only where the field values do not tell them.
FAST: Sequence[Reading] = (
    ("utilization_ratio", (_read_utilization,)),
    _MEMORY,
    ("power_watts", (_read_power,)),
    ("energy_joules", (_read_energy,)),
    ("temperature_celsius", (_read_temperature,)),
    ("sm_clock_hz", (_read_sm_clock,)),
    ("clocks_event_reasons", (_read_clock_events, _read_clock_events_old)),
)
# Every ten seconds.
SLOW: Sequence[Reading] = (
    ("sm_clock_max_hz", (_read_max_sm_clock,)),
    ("ecc_uncorrected_errors", (_read_uncorrected,)),
    ("ecc_corrected_errors", (_read_corrected,)),
)
# What NVML tells of a MIG device: clocks, power and the rest are the whole GPU's.
OF_MIG: Sequence[Reading] = (_MEMORY,)
PROCESS_CALLS = (
    pynvml.nvmlDeviceGetComputeRunningProcesses_v3,
    pynvml.nvmlDeviceGetComputeRunningProcesses_v2,
)
