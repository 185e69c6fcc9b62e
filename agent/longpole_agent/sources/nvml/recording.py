"""Records what this machine's GPUs really answer, each call with what it takes, as JSON.

A recording is test data: the library that the tests build plays it. It names no GPU by its id, no
process and no host.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from longpole import __version__
from longpole_agent.sources.nvml import fields
from longpole_agent.sources.nvml.activity import METRICS
from longpole_agent.sources.nvml.answers import Handle, code_of, describe
from longpole_agent.sources.nvml.source import NvmlSource

SCHEMA = "longpole.nvml/1"
_NUM_SAMPLES = 10
_INTERVAL_S = 0.3
_MAX_PROCESSES = 4
# Activity is averaged between two looks.
_ACTIVITY_S = 0.2

# A call by what it reads, as raw values.
_Call = Callable[[Handle], Mapping[str, int]]


class NothingToRecordError(Exception):
    """NVML cannot be used here."""


def record(
    pause: Callable[[float], None] = time.sleep,
    now_ns: Callable[[], int] = time.time_ns,
    num_samples: int = _NUM_SAMPLES,
) -> dict[str, Any]:
    """Return the recording of all GPUs; takes a few seconds.

    Args:
        pause: Waits some seconds.
        now_ns: Wall clock.
        num_samples: How often everything is asked for.

    Raises:
        NothingToRecordError: There is no driver, or no GPU.
    """
    source_ms, points = _run_source(pause, now_ns, num_samples)
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise NothingToRecordError(describe(error)) from error
    try:
        devices = [
            _record_device(index, pause) for index in range(int(pynvml.nvmlDeviceGetCount()))
        ]
        if not devices:
            raise NothingToRecordError("the driver knows no GPU")
        return {
            "schema": SCHEMA,
            "longpole": __version__,
            "driver": _read_text(pynvml.nvmlSystemGetDriverVersion),
            "sample_ms": _summarise(source_ms),
            "points": points,
            "devices": devices,
        }
    finally:
        pynvml.nvmlShutdown()


def _run_source(
    pause: Callable[[float], None], now_ns: Callable[[], int], num_samples: int
) -> tuple[list[float], Sequence[Mapping[str, Any]]]:
    """Sample as the agent does; return the time of each sample and the points of the last."""
    source = NvmlSource()
    took_ms: list[float] = []
    points: Sequence[Mapping[str, Any]] = ()
    try:
        for _ in range(num_samples):
            begin = time.perf_counter()
            found = source.sample(now_ns())
            took_ms.append((time.perf_counter() - begin) * 1e3)
            points = [
                {
                    "metric": point.metric,
                    "value": point.value,
                    "gpu": dict(point.attributes).get("gpu.index"),
                }
                for point in found
                if not point.metric.startswith("process.")
            ]
            pause(_INTERVAL_S)
    finally:
        source.close()
    return took_ms, points


def _record_device(index: int, pause: Callable[[float], None]) -> dict[str, Any]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return {
        "index": index,
        "uuid": f"GPU-recorded-{index}",
        "name": str(pynvml.nvmlDeviceGetName(handle)),
        "calls": {name: _record_call(call, handle) for name, call in _CALLS.items()},
        "fields": _record_fields(handle),
        "activity": _record_activity(handle, pause),
    }


def _record_call(call: _Call, handle: Handle) -> dict[str, Any]:
    took_us: list[float] = []
    code, value = pynvml.NVML_SUCCESS, None
    for _ in range(_NUM_SAMPLES):
        begin = time.perf_counter()
        try:
            value = dict(call(handle))
        except pynvml.NVMLError as error:
            code = code_of(error)
        took_us.append((time.perf_counter() - begin) * 1e6)
        if code != pynvml.NVML_SUCCESS:
            break
    return {"code": code, "value": value, "us": _summarise(took_us)}


def _record_fields(handle: Handle) -> list[dict[str, Any]]:
    asked = [*fields.FAST, *fields.RATES, *fields.SLOW]
    try:
        answers: Any = pynvml.nvmlDeviceGetFieldValues(
            handle, [(field.number, field.scope) for field in asked]
        )
    except pynvml.NVMLError:
        return []
    return [
        {
            "number": field.number,
            "scope": field.scope,
            "code": int(answer.nvmlReturn),
            "type": int(answer.valueType),
            # Whatever the type, its bits: they are told from the type again.
            "value": int(answer.value.ullVal),
            "timestamp_us": int(answer.timestamp),
            "latency_us": int(answer.latencyUsec),
        }
        for field, answer in zip(asked, answers, strict=True)
    ]


def _record_activity(handle: Handle, pause: Callable[[float], None]) -> list[dict[str, Any]]:
    samples: list[Any] = []
    try:
        samples += [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        pynvml.nvmlGpmSampleGet(handle, samples[0])
        pause(_ACTIVITY_S)
        pynvml.nvmlGpmSampleGet(handle, samples[1])
        question: Any = pynvml.c_nvmlGpmMetricsGet_t()
        question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(METRICS)
        question.sample1, question.sample2 = samples
        for metric, (number, _, _) in zip(question.metrics, METRICS, strict=False):
            metric.metricId = number
        answer: Any = pynvml.nvmlGpmMetricsGet(question)
        return [
            {
                "number": number,
                "code": int(metric.nvmlReturn),
                "value": float(metric.value) if metric.value == metric.value else None,
            }
            for metric, (number, _, _) in zip(answer.metrics, METRICS, strict=False)
        ]
    except pynvml.NVMLError:
        return []
    finally:
        for sample in samples:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlGpmSampleFree(sample)


def _read_memory(handle: Handle) -> Mapping[str, int]:
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    return {
        "memory_total": int(memory.total),
        "memory_reserved": int(memory.reserved),
        "memory_free": int(memory.free),
        "memory_used": int(memory.used),
    }


def _ask_memory_v1(handle: Handle) -> Mapping[str, int]:
    pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {}


def _ask_throttle(handle: Handle) -> Mapping[str, int]:
    pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return {}


def _ask_gpm(handle: Handle) -> Mapping[str, int]:
    if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return {}


def _ask_events(handle: Handle) -> Mapping[str, int]:
    pynvml.nvmlDeviceGetSupportedEventTypes(handle)
    return {}


def _read_ecc(handle: Handle) -> Mapping[str, int]:
    kinds = {
        "ecc_uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
        "ecc_corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    }
    return {
        name: int(pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, pynvml.NVML_VOLATILE_ECC))
        for name, kind in kinds.items()
    }


def _count_processes(handle: Handle) -> Mapping[str, int]:
    processes: Any = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
    return {"num_processes": min(len(processes), _MAX_PROCESSES)}


def _read_utilization(handle: Handle) -> Mapping[str, int]:
    rates: Any = pynvml.nvmlDeviceGetUtilizationRates(handle)
    return {"utilization_percent": int(rates.gpu)}


_CALLS: Mapping[str, _Call] = {
    "utilization": _read_utilization,
    "memory_v2": _read_memory,
    "memory": _ask_memory_v1,
    "power": lambda handle: {"power_milliwatts": int(pynvml.nvmlDeviceGetPowerUsage(handle))},
    "energy": lambda handle: {
        "energy_millijoules": int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    },
    "temperature": lambda handle: {
        "temperature": int(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU))
    },
    "sm_clock": lambda handle: {
        "sm_megahertz": int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
    },
    "max_clock": lambda handle: {
        "max_sm_megahertz": int(pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM))
    },
    "events": lambda handle: {
        "clock_events": int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    },
    "throttle": _ask_throttle,
    "processes": _count_processes,
    "gpm": _ask_gpm,
    "xid": _ask_events,
    "ecc": _read_ecc,
    "mig": lambda handle: {"is_divided": int(pynvml.nvmlDeviceGetMigMode(handle)[0])},
}


def _read_text(call: Callable[[], Any]) -> str | None:
    try:
        return str(call())
    except pynvml.NVMLError:
        return None


def _summarise(values: Sequence[float]) -> dict[str, float]:
    return {
        "least": round(min(values), 1),
        "median": round(statistics.median(values), 1),
        "most": round(max(values), 1),
    }
