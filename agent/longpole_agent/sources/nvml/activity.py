"""Activity counters (GPM) of Hopper and newer: averages between two samples.

They share hardware with DCGM's profiling: two readers can disturb each other.
"""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pynvml

from longpole_agent.sources.nvml.answers import (
    NOT_SUPPORTED,
    Handle,
    Values,
    check_present,
    code_of,
)

# NVML's documentation: activity is averaged between two samples at least 100 ms apart.
_APART_NS = 100_000_000
_MIB = float(1 << 20)
# GPM metric, column, and the factor from NVML's unit (percent, MiB/s).
METRICS = (
    (pynvml.NVML_GPM_METRIC_SM_UTIL, "sm_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_active_ratio", 0.01),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_rx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_tx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_rx_bytes_per_s", _MIB),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_tx_bytes_per_s", _MIB),
)


class Activity:
    """The activity of one device. Holds memory of NVML's until it is closed.

    Args:
        take: Takes a sample of the device into memory of NVML's.
    """

    def __init__(self, take: Callable[[Any], object]) -> None:
        self._take = take
        self._metrics = list(METRICS)
        self._before: Any = pynvml.nvmlGpmSampleAlloc()
        self._after: Any = pynvml.nvmlGpmSampleAlloc()
        self._before_ns = 0

    @property
    def columns(self) -> Collection[str]:
        """The columns that it tells, as far as is known."""
        return [column for _, column, _ in self._metrics]

    def read(self, ts_ns: int) -> Values:
        """Return the activity since the sample before, as far as each counter is supported.

        Raises:
            GoneError: The device does not answer any more.
        """
        if not self._metrics or 0 <= ts_ns - self._before_ns < _APART_NS:
            return ()
        try:
            self._take(self._after)
            is_first, self._before_ns = not self._before_ns, ts_ns
            older, newer = self._before, self._after
            self._before, self._after = newer, older
            if is_first:
                return ()
            return self._read_answer(_ask(older, newer, [each[0] for each in self._metrics]))
        except pynvml.NVMLError as error:
            check_present(code_of(error))
            if code_of(error) in NOT_SUPPORTED:
                self._metrics = []
            return ()

    def close(self) -> None:
        """Give the memory back."""
        with suppress(pynvml.NVMLError):
            pynvml.nvmlGpmSampleFree(self._before)
            pynvml.nvmlGpmSampleFree(self._after)

    def _read_answer(self, answer: Any) -> Values:  # noqa: ANN401 - pynvml has no types
        values: list[tuple[str, float]] = []
        for metric, kind in zip(answer.metrics, tuple(self._metrics), strict=False):
            code = int(metric.nvmlReturn)
            if code in NOT_SUPPORTED:
                self._metrics.remove(kind)
            elif code == pynvml.NVML_SUCCESS and math.isfinite(metric.value):
                values.append((kind[1], float(metric.value) * kind[2]))
        return values


def open_activity(handle: Handle) -> Activity | None:
    """Return the activity of a whole GPU, None where it has no such counters."""
    return _open(handle, lambda sample: pynvml.nvmlGpmSampleGet(handle, sample))


def open_mig_activity(parent: Handle, instance: int) -> Activity | None:
    """Return the activity of a GPU instance, None where the GPU has no such counters."""
    return _open(parent, lambda sample: pynvml.nvmlGpmMigSampleGet(parent, instance, sample))


def _open(handle: Handle, take: Callable[[Any], object]) -> Activity | None:
    with suppress(pynvml.NVMLError):
        if pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            return Activity(take)
    return None


def _ask(older: Any, newer: Any, numbers: list[int]) -> Any:  # noqa: ANN401 - pynvml has no types
    question: Any = pynvml.c_nvmlGpmMetricsGet_t()
    question.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    question.numMetrics = len(numbers)
    question.sample1, question.sample2 = older, newer
    for metric, number in zip(question.metrics, numbers, strict=False):
        metric.metricId = number
    return pynvml.nvmlGpmMetricsGet(question)
