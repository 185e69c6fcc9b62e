"""What GPUs did in a step: their samples are read once, for all that a page says of them."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.step import Step
from longpole_server.read import GpuColumns, GpuWork, Reader
from longpole_server.service.gpu_windows import BUSY_ACTIVITY, SLOWDOWN_MASK
from longpole_server.service.memory import Memory

MAX_STEP_BINS = 600
_SECOND_NS = 1_000_000_000
# A moment's energy lies between the samples around it.
_AROUND_NS = 3_000_000_000
# Bins of ten seconds and more are made of rollups: one below reaches beyond the end by less.
_BEYOND_NS = 10_000_000_000
# Longer steps, of more GPUs, are asked for in figures and not in samples.
_MAX_SAMPLES = 500_000
# What was read is kept for one answer of the service, and until the rest of a page has asked; of
# a step that ended just now, whose last samples still come in, it is soon read again.
_KEPT_S, _KEPT_FRESH_S = 5.0, 1.0
_SETTLED_NS = 60 * _SECOND_NS
_MAX_KEPT = 4


class StepGpus:
    """Answers from the samples of a step that were just read, else as the reader does. Thread-safe.

    Every method raises `StoreError` when the database fails.

    Args:
        reader: Reads the store.
        now_s: Monotonic clock, seconds.
        now_ns: Wall clock, UTC nanoseconds.
    """

    def __init__(
        self,
        reader: Reader,
        now_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._reader = reader
        self._now_s = now_s
        self._now_ns = now_ns
        self._lock = Lock()
        # Who asks while a step is being read waits for it.
        self._memory = Memory(_MAX_KEPT, joins=True)
        self._kept: list[tuple[float, GpuColumns]] = []

    def hold(self, step: Step, lanes: Sequence[RunGpu]) -> None:
        """Read the samples of a step that has ended, if they are not too many."""
        if step.end_ns is None or not lanes:
            return
        start_ns, end_ns = step.start_ns - _AROUND_NS, step.end_ns + _BEYOND_NS
        # Agents sample every second, unless told otherwise.
        if len(lanes) * (end_ns - start_ns) // _SECOND_NS > _MAX_SAMPLES:
            return
        uuids = tuple(lane.gpu_uuid for lane in lanes)
        if self._find(uuids, start_ns, end_ns) is None:
            self._memory.ask(
                (start_ns, end_ns, uuids),
                self._now_s() // _KEPT_FRESH_S,
                lambda: self._read(uuids, start_ns, end_ns),
            )

    @contextmanager
    def holding(self, step: Step, lanes: Sequence[RunGpu]) -> Generator[None]:
        """Hold a step as `hold` does, beside what is asked for inside; a failure comes after it."""
        with ThreadPoolExecutor(1, thread_name_prefix="longpole-step-gpus") as beside:
            held = beside.submit(self.hold, step, lanes)
            yield
            held.result()

    def get_heatmaps(
        self,
        lanes: Sequence[RunGpu],
        fields: Sequence[str],
        start_ns: int,
        end_ns: int,
        max_bins: int,
    ) -> Mapping[str, GpuHeatmap]:
        """Return fields of GPUs binned by mean, as `Reader.get_gpu_heatmaps` does."""
        columns = self._find([lane.gpu_uuid for lane in lanes], start_ns, end_ns)
        if columns is not None:
            known = [columns.average(lanes, name, start_ns, end_ns, max_bins) for name in fields]
            found = {heatmap.field: heatmap for heatmap in known if heatmap is not None}
            if len(found) == len(fields):
                return found
        return self._reader.get_gpu_heatmaps(lanes, fields, start_ns, end_ns, max_bins)

    def list_work(self, uuids: Sequence[str], start_ns: int, end_ns: int) -> Sequence[GpuWork]:
        """Return what GPUs did over a range, as `Reader.list_gpu_work` does."""
        columns = self._find(uuids, start_ns, end_ns)
        if columns is None:
            return self._reader.list_gpu_work(uuids, start_ns, end_ns, BUSY_ACTIVITY, SLOWDOWN_MASK)
        work = columns.sum_work(start_ns, end_ns, BUSY_ACTIVITY, SLOWDOWN_MASK)
        asked = set(uuids)
        return [each for each in work if each.gpu_uuid in asked]

    def read_energy(
        self, uuids: Sequence[str], moments_ns: Sequence[int]
    ) -> Mapping[tuple[str, int], float]:
        """Return joules by GPU and moment, as `Reader.read_energy` does; also of other GPUs."""
        if not uuids or not moments_ns:
            return {}
        start_ns, end_ns = min(moments_ns) - _AROUND_NS, max(moments_ns) + _AROUND_NS
        columns = self._find(uuids, start_ns, end_ns)
        if columns is None:
            return self._reader.read_energy(uuids, moments_ns)
        return columns.count_energy(moments_ns)

    def _find(self, uuids: Sequence[str], start_ns: int, end_ns: int) -> GpuColumns | None:
        now_s = self._now_s()
        with self._lock:
            self._kept = [each for each in self._kept if each[0] >= now_s]
            kept = list(self._kept)
        return next(
            (columns for _, columns in reversed(kept) if columns.covers(uuids, start_ns, end_ns)),
            None,
        )

    def _read(self, uuids: Sequence[str], start_ns: int, end_ns: int) -> None:
        settled = self._now_ns() - end_ns > _SETTLED_NS
        until_s = self._now_s() + (_KEPT_S if settled else _KEPT_FRESH_S)
        columns = self._reader.read_gpu_columns(uuids, start_ns, end_ns, _MAX_SAMPLES)
        if columns is None:
            return
        with self._lock:
            self._kept.append((until_s, columns))
            while len(self._kept) > 1 and (
                len(self._kept) > _MAX_KEPT
                or sum(len(each.rows) for _, each in self._kept) > _MAX_SAMPLES
            ):
                del self._kept[0]
