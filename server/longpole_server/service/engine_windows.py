"""What the rollout engines did while a step's samples were generated, from their own series."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_server.analysis.intervals import Interval, length, union
from longpole_server.model.facts import EngineWindow
from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step
from longpole_server.read import EngineBin

_ROLLOUT = "rollout"
RUNNING_SERIES = ("vllm:num_requests_running", "sglang:num_running_reqs")
WAITING_SERIES = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
# All of these are 0..1, `perc` in the name notwithstanding.
KV_USAGE_SERIES = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
PREEMPTION_SERIES = ("vllm:num_preemptions_total", "sglang:num_retracted_requests_total")
_RECOMPUTED = (
    "vllm:prompt_tokens_recomputed_total",
    "sglang:num_retracted_input_tokens_total",
    "sglang:num_retracted_output_tokens_total",
)
# Counted with every iteration, and counted when a request has finished.
_GENERATED_LIVE = ("vllm:generation_tokens_total",)
_GENERATED_LATE = ("sglang:generation_tokens_total",)
_PROMPT = ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total")
_REALTIME = ("sglang:realtime_tokens_total",)
# Of vLLM's first V1 releases, in blocks: only their ratio is used.
_HITS = (
    "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_hits_total",
    "sglang:cached_tokens_total",
)
_QUERIES = (
    "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_queries_total",
    "sglang:prompt_tokens_total",
)
_PREFILL_S = ("vllm:request_prefill_time_seconds_sum",)
_DECODE_S = ("vllm:request_decode_time_seconds_sum",)

ENGINE_SERIES = tuple(
    dict.fromkeys(
        (
            *RUNNING_SERIES,
            *WAITING_SERIES,
            *KV_USAGE_SERIES,
            *PREEMPTION_SERIES,
            *_RECOMPUTED,
            *_GENERATED_LIVE,
            *_GENERATED_LATE,
            *_PROMPT,
            *_REALTIME,
            *_HITS,
            *_QUERIES,
            *_PREFILL_S,
            *_DECODE_S,
        )
    )
)

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]


def rollout_windows(
    step: Step, *, separate_pools: bool, spans: Sequence[StageSpan] = ()
) -> list[Interval]:
    """Return when samples were generated: gen, or the whole step with GPUs of their own.

    Where only scalars tell how long gen took, the lanes of rollout replicas tell when.
    """
    if step.end_ns is None:
        return []
    gen = step.stage(stages.GEN) or step.stage(stages.TRAINER_WAIT)
    if separate_pools:
        return [(step.start_ns, step.end_ns)]
    if gen is not None and gen.windows:
        return union(gen.windows)
    return union(
        (span.start_ns, span.end_ns)
        for span in spans
        if span.role == _ROLLOUT and span.stage == stages.GEN and span.end_ns > span.start_ns
    )


def summarise_engines(
    bins: Sequence[EngineBin],
    windows: Sequence[Interval],
    start_ns: int,
    bin_ns: int,
    end_ns: int | None = None,
) -> tuple[EngineWindow, ...]:
    """Return one window a replica from its binned series.

    Args:
        bins: Series of `ENGINE_SERIES`, from `start_ns` on.
        windows: Disjoint windows; bins with their middle in none of them are left out, except for
            what is taken of the KV cache at rest.
        start_ns: Begin of bin 0.
        bin_ns: Length of a bin.
        end_ns: Where the bins end, None at the end of the last window.
    """
    if not windows or not bins:
        return ()
    count = -(-((end_ns or windows[-1][1]) - start_ns) // bin_ns)
    # Middles of bins, in time since the first one begins: exact in floats.
    middles = (np.arange(count, dtype=np.float64) + 0.5) * bin_ns
    inside = np.zeros(count, dtype=np.bool_)
    for begin_ns, end_ns in windows:
        inside |= (middles >= begin_ns - start_ns) & (middles < end_ns - start_ns)
    by_replica: dict[str, list[EngineBin]] = {}
    for each in bins:
        if 0 <= each.bin < count:
            by_replica.setdefault(each.replica, []).append(each)
    seconds = length(windows) / 1e9
    return tuple(
        _summarise(replica, _Series(rows, inside), seconds) for replica, rows in by_replica.items()
    )


@dataclass(frozen=True, slots=True)
class _Columns:
    """One series by bin, NaN where no sample came."""

    mean: _Floats
    largest: _Floats
    increase: _Floats


class _Series:
    """The series of one replica as columns over the bins inside the windows."""

    def __init__(self, rows: Sequence[EngineBin], inside: _Flags) -> None:
        self.count = int(np.count_nonzero(inside))
        self._inside = inside
        self._columns: dict[str, _Columns] = {}
        for row in rows:
            if row.name not in self._columns:
                self._columns[row.name] = _Columns(
                    _unknown(len(inside)), _unknown(len(inside)), _unknown(len(inside))
                )
            columns = self._columns[row.name]
            columns.mean[row.bin] = row.mean
            columns.largest[row.bin] = row.largest
            columns.increase[row.bin] = row.increase

    def gauge(
        self, names: Sequence[str], *, everywhere: bool = False
    ) -> tuple[_Floats, _Floats] | None:
        """Return (mean, largest) by bin of the first series that is there, held until the next."""
        for name in names:
            if name in self._columns:
                mean, largest = self._columns[name].mean, self._columns[name].largest
                where = slice(None) if everywhere else self._inside
                return _hold(mean)[where], _hold(largest)[where]
        return None

    def counter(self, names: Sequence[str]) -> _Floats | None:
        """Return the increase by bin, of all series that are there together."""
        known = [self._columns[name].increase for name in names if name in self._columns]
        if not known:
            return None
        total = np.zeros(self.count)
        for column in known:
            total += np.nan_to_num(column[self._inside])
        return total

    def moves(self, names: Sequence[str]) -> _Flags | None:
        """Return in which bins a counter grew: what a scrape finds has come since the one before.

        Behind the last scrape the engine is taken to go on as before it.
        """
        known = [self._columns[name].increase for name in names if name in self._columns]
        if not known:
            return None
        grew = [np.nan_to_num(_hold(_reach_back(column))) > 0 for column in known]
        return np.any(grew, axis=0)[self._inside]

    def total(self, names: Sequence[str]) -> float | None:
        """Return how much a counter grew inside the windows."""
        increase = self.counter(names)
        return None if increase is None else float(increase.sum())


@dataclass(frozen=True, slots=True)
class _Liveness:
    """When gauges can be believed: a gauge whose engine's token counters stand still is stale."""

    live: _Flags
    is_known: bool


def _summarise(replica: str, series: _Series, seconds: float) -> EngineWindow:
    liveness = _find_live(series)
    running, waiting = series.gauge(RUNNING_SERIES), series.gauge(WAITING_SERIES)
    kv_usage = series.gauge(KV_USAGE_SERIES)
    at_rest = _find_rest(running, waiting)
    idle = _find_idle(liveness, at_rest)
    hits, queries = series.total(_HITS), series.total(_QUERIES)
    live = liveness.live
    return EngineWindow(
        replica=replica,
        seconds=seconds,
        kv_usage_mean_ratio=_mean_where(kv_usage, live),
        kv_usage_max_ratio=_max_where(kv_usage, live),
        running_mean=_spread_over_all(running, live),
        running_max=_max_where(running, live),
        waiting_mean=_spread_over_all(waiting, live),
        waiting_max=_max_where(waiting, live),
        preemptions=series.total(PREEMPTION_SERIES),
        generated_tokens=series.total((*_GENERATED_LIVE, *_GENERATED_LATE)),
        prompt_tokens=series.total(_PROMPT),
        prefix_hit_ratio=None if hits is None or not queries else min(1.0, hits / queries),
        idle_s=None if idle is None or not len(idle) else seconds * float(idle.mean()),
        recomputed_tokens=series.total(_RECOMPUTED),
        prefill_ratio=_part(series.total(_PREFILL_S), series.total(_DECODE_S)),
        kv_usage_idle_ratio=_kv_at_rest(series),
        queued_s=_queued_seconds(waiting, live, seconds),
    )


def _find_live(series: _Series) -> _Liveness:
    moves = series.moves((*_GENERATED_LIVE, *_REALTIME))
    if moves is not None:
        # Tokens are not scraped in the moment that they come.
        near = np.array(moves)
        near[1:] |= moves[:-1]
        near[:-1] |= moves[1:]
        return _Liveness(near, is_known=True)
    late = series.counter(_GENERATED_LATE)
    if late is not None:
        moved = np.flatnonzero(late > 0)
        last = int(moved[-1]) if len(moved) else -1
        return _Liveness(np.arange(series.count) <= last, is_known=True)
    return _Liveness(np.ones(series.count, dtype=bool), is_known=False)


def _find_rest(
    running: tuple[_Floats, _Floats] | None, waiting: tuple[_Floats, _Floats] | None
) -> _Flags | None:
    if running is None:
        return None
    rest = running[1] == 0
    return rest if waiting is None else rest & ~(waiting[1] > 0)


def _kv_at_rest(series: _Series) -> float | None:
    """Return what is taken of the cache at rest, also right before and behind the windows."""
    at_rest = _find_rest(
        series.gauge(RUNNING_SERIES, everywhere=True), series.gauge(WAITING_SERIES, everywhere=True)
    )
    return _least_where(series.gauge(KV_USAGE_SERIES, everywhere=True), at_rest)


def _find_idle(liveness: _Liveness, at_rest: _Flags | None) -> _Flags | None:
    """Nothing runs and nothing waits, or no token came."""
    if liveness.is_known:
        return ~liveness.live if at_rest is None else ~liveness.live | at_rest
    return at_rest


def _unknown(count: int) -> _Floats:
    return np.full(count, np.nan, dtype=np.float64)


def _hold(values: _Floats) -> _Floats:
    """Return a gauge in which bins without a sample show the one before."""
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return values
    place = np.searchsorted(known, np.arange(len(values)), side="right") - 1
    held = values[known[np.maximum(place, 0)]]
    held[place < 0] = np.nan
    return held


def _reach_back(values: _Floats) -> _Floats:
    """Return a series in which bins without a sample show the one after."""
    return _hold(values[::-1])[::-1]


def _mean_where(gauge: tuple[_Floats, _Floats] | None, live: _Flags) -> float | None:
    if gauge is None:
        return None
    known = gauge[0][live & ~np.isnan(gauge[0])]
    return float(known.mean()) if len(known) else None


def _max_where(gauge: tuple[_Floats, _Floats] | None, live: _Flags) -> float | None:
    if gauge is None:
        return None
    known = gauge[1][live & ~np.isnan(gauge[1])]
    return float(known.max()) if len(known) else None


def _least_where(gauge: tuple[_Floats, _Floats] | None, at_rest: _Flags | None) -> float | None:
    if gauge is None or at_rest is None:
        return None
    known = gauge[0][at_rest & ~np.isnan(gauge[0])]
    return float(known.min()) if len(known) else None


def _spread_over_all(gauge: tuple[_Floats, _Floats] | None, live: _Flags) -> float | None:
    """Return the mean over the whole windows: where the engine stood still, nothing ran."""
    if gauge is None or not len(live):
        return None
    return float(np.where(live, np.nan_to_num(gauge[0]), 0.0).mean())


def _queued_seconds(
    waiting: tuple[_Floats, _Floats] | None, live: _Flags, seconds: float
) -> float | None:
    if waiting is None or not len(live):
        return None
    return seconds * float((live & (np.nan_to_num(waiting[0]) > 0)).mean())


def _part(value: float | None, other: float | None) -> float | None:
    if value is None or other is None or value + other <= 0:
        return None
    return value / (value + other)
