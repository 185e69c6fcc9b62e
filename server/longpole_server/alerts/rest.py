"""Finds when an engine was at rest, from the series it reports under their Prometheus names."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from longpole_server.alerts.engines import AWAKE, EngineStep, Rest
from longpole_server.model.step import Step

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]

_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_PAUSED = ("sglang:num_paused_reqs",)
_KV_RATIO = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
# Tokens that no cache may evict; `token_usage` counts evictable ones in some versions.
_KV_TOKENS = "sglang:num_used_tokens"
_POOL_TOKENS = "sglang:max_total_num_tokens"
_POOL_INFO = "vllm:cache_config_info"
_SLEEP = "vllm:engine_sleep_state"
_GENERATED = (
    "vllm:generation_tokens_total",
    "vllm:generation_tokens",
    "sglang:realtime_tokens_total",
    "sglang:generation_tokens_total",
)
_PROMPT = ("vllm:prompt_tokens_total", "vllm:prompt_tokens", "sglang:prompt_tokens_total")
_RATE = ("vllm:avg_generation_throughput_toks_per_s", "sglang:gen_throughput")
_PREEMPTIONS = (
    "vllm:num_preemptions_total",
    "vllm:num_preemptions",
    "sglang:num_retracted_requests_total",
)
# From vLLM's log: its page does not say it.
_NOT_FREED = ("vllm:prefix_cache_blocks_not_freed",)
# Counted, so that series of one name that differ in a label add up; of gauges the largest counts.
_COUNTERS = frozenset({*_GENERATED, *_PROMPT, *_PREEMPTIONS})

ENGINE_SERIES: tuple[str, ...] = (
    *_RUNNING,
    *_WAITING,
    *_PAUSED,
    *_KV_RATIO,
    _KV_TOKENS,
    _POOL_TOKENS,
    _POOL_INFO,
    _SLEEP,
    *_GENERATED,
    *_PROMPT,
    *_RATE,
    *_PREEMPTIONS,
    *_NOT_FREED,
)
"""Series that are read; what follows in braces are labels."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# A value counts until this many usual scrapes after it.
_HELD_SCRAPES = 2.5
_NS_PER_S = 1e9
_MIN_SCRAPES = 2


@dataclass(frozen=True, slots=True)
class Samples:
    """One series: UTC nanoseconds in order, and a value at each."""

    times_ns: NDArray[np.int64]
    values: _Floats


@dataclass(frozen=True, slots=True)
class RestWindow:
    """A stretch of a step in which an engine was at rest, in one phase."""

    stage: str
    sleep: str
    start_ns: int
    end_ns: int


def observe_engine(
    replica: str, series: Mapping[str, Samples], step: Step
) -> tuple[EngineStep, tuple[RestWindow, ...]]:
    """Return what an engine did in a step and when it was at rest.

    Args:
        replica: Which one.
        series: What it reported, by name with labels, from a little before the step on.
        step: The step, closed.
    """
    scrapes = _Scrapes(series)
    end_ns = step.end_ns if step.end_ns is not None else step.start_ns
    inside = (scrapes.times_ns > step.start_ns) & (scrapes.times_ns <= end_ns)
    num_scrapes = int(inside.sum())
    if num_scrapes < _MIN_SCRAPES:
        why = f"{num_scrapes} scrapes of it lie in the step"
        return EngineStep(replica, num_scrapes, restless_because=why), ()
    why = scrapes.find_gap()
    at_rest = scrapes.find_rest() & inside if why is None else np.zeros_like(inside)
    if why is None and not at_rest.any():
        why = "something ran or waited at all of its scrapes"
    stages = name_stages(step, scrapes.times_ns)
    rests, windows = _collect_rests(scrapes, at_rest, stages)
    tokens = scrapes.tokens[inside]
    known = tokens[np.isfinite(tokens)]
    busy = inside & (scrapes.running > 0)
    engine = EngineStep(
        replica,
        num_scrapes,
        rests,
        why,
        tokens_first=float(known[0]) if known.size else None,
        tokens_last=float(known[-1]) if known.size else None,
        is_restarted=bool((np.diff(known) < 0).any()),
        running_mean=_mean(scrapes.running[busy]),
        context_mean=_mean(scrapes.context[busy]),
        busy_s=float(busy.sum()) * scrapes.gap_ns / _NS_PER_S,
        generated_tokens=_growth(scrapes.generated[inside]),
        preemptions=_growth(scrapes.preemptions[inside]),
        blocks_not_freed=_largest(scrapes.not_freed[inside]),
    )
    return engine, windows


def with_memory(
    engine: EngineStep,
    windows: Sequence[RestWindow],
    measure: Callable[[RestWindow], Rest | None],
) -> EngineStep:
    """Return an engine's step with the memory that GPUs and node showed during its rests.

    Args:
        engine: What it did.
        windows: When it was at rest.
        measure: Returns the smallest memory of a window, in any phase; None when not known.
    """
    found: dict[tuple[str, str], Rest] = {}
    for window in windows:
        seen = measure(window)
        key = (window.stage, window.sleep)
        if seen is not None:
            before = found.get(key)
            found[key] = seen if before is None else _smaller(before, seen)
    rests = tuple(
        rest
        if (seen := found.get(rest.phase)) is None
        else replace(
            rest,
            device_bytes=seen.device_bytes,
            device_total_bytes=seen.device_total_bytes,
            host_bytes=seen.host_bytes,
            host_total_bytes=seen.host_total_bytes,
        )
        for rest in engine.rests
    )
    return replace(engine, rests=rests)


def name_stages(step: Step, times_ns: NDArray[np.int64]) -> list[str]:
    """Return the stage that a step was in at each time, the innermost where stages nest."""
    names = [""] * len(times_ns)
    lengths = np.full(len(times_ns), np.inf)
    for stage in step.stages:
        windows = stage.windows
        if not windows and stage.start_ns is not None and stage.end_ns is not None:
            windows = ((stage.start_ns, stage.end_ns),)
        for start_ns, end_ns in windows:
            length = float(end_ns - start_ns)
            held = (times_ns > start_ns) & (times_ns <= end_ns) & (length < lengths)
            for index in np.flatnonzero(held):
                names[index] = stage.stage
            lengths[held] = length
    return names


class _Scrapes:
    """The series of one engine on one axis: the times at which it said how many requests run."""

    def __init__(self, series: Mapping[str, Samples]) -> None:
        self._by_base: dict[str, dict[str, Samples]] = {}
        for name, samples in series.items():
            if len(samples.times_ns):
                self._by_base.setdefault(name.partition("{")[0], {})[name] = samples
        axis = next((base for base in _RUNNING if base in self._by_base), None)
        times = (
            _join_times([each.times_ns for each in self._by_base[axis].values()])
            if axis is not None
            else np.empty(0, np.int64)
        )
        self.times_ns = times
        self.gap_ns = float(np.median(np.diff(times))) if len(times) > 1 else _NS_PER_S
        self.running = self._read(_RUNNING)
        self.waiting = self._read(_WAITING)
        self.paused = self._read(_PAUSED)
        self.generated = self._read(_GENERATED)
        self.preemptions = self._read(_PREEMPTIONS)
        self.not_freed = self._read(_NOT_FREED)
        self.tokens = self.generated + np.nan_to_num(self._read(_PROMPT))
        self.rate = self._read(_RATE)
        self.sleep = self._read_sleep()
        self.pool = self._read_pool()
        self.kv = self._read_kv()
        self.context = np.divide(
            self.kv * self.pool * self._read_block_size(),
            self.running,
            out=np.full(len(times), np.nan),
            where=self.running > 0,
        )

    def find_gap(self) -> str | None:
        """Return what is missing to tell whether it is at rest."""
        if not np.isfinite(self.waiting).any():
            return "it does not report how many requests wait"
        if not np.isfinite(self.tokens).any() and not np.isfinite(self.rate).any():
            return "it reports no token counter"
        return None

    def find_rest(self) -> _Flags:
        """Return at which scrapes nothing runs or waits and no token came since the one before."""
        still = np.zeros(len(self.times_ns), np.bool_)
        if np.isfinite(self.tokens).any():
            still[1:] = self.tokens[1:] == self.tokens[:-1]
        else:
            still[1:] = (self.rate[1:] == 0) & (self.rate[:-1] == 0)
        idle = (self.running == 0) & (self.waiting == 0) & ~(self.paused > 0)
        near = np.zeros(len(self.times_ns), np.bool_)
        near[1:] = np.diff(self.times_ns) <= _HELD_SCRAPES * self.gap_ns
        return idle & still & near

    def _read(self, bases: Sequence[str]) -> _Floats:
        """Return the first of these series that is reported, on the axis."""
        for base in bases:
            parts = self._by_base.get(base)
            if parts:
                aligned = [self._align(samples) for samples in parts.values()]
                if len(aligned) == 1:
                    only = aligned[0]
                    is_known = np.isfinite(only) if base not in _COUNTERS else True
                    return np.where(is_known, only, np.nan)
                columns = np.stack(aligned)
                if base in _COUNTERS:
                    unknown = np.isnan(columns).all(axis=0)
                    return np.where(unknown, np.nan, np.nansum(columns, axis=0))
                return _largest_known(columns)
        return np.full(len(self.times_ns), np.nan)

    def _align(self, samples: Samples, *, forever: bool = False) -> _Floats:
        """Return the newest value at each time of the axis, NaN where that is too old."""
        if np.array_equal(samples.times_ns, self.times_ns):
            # A page is read as a whole: most series have the axis' own times.
            return samples.values.astype(np.float64)
        index = np.searchsorted(samples.times_ns, self.times_ns, side="right") - 1
        values = samples.values[np.maximum(index, 0)].astype(np.float64)
        age = self.times_ns - samples.times_ns[np.maximum(index, 0)]
        missing = index < 0
        if not forever:
            missing |= age > _HELD_SCRAPES * self.gap_ns
        values[missing] = np.nan
        return values

    def _read_sleep(self) -> list[str]:
        states = [""] * len(self.times_ns)
        for name, samples in self._by_base.get(_SLEEP, {}).items():
            state = dict(_LABEL.findall(name)).get("sleep_state", "")
            for index in np.flatnonzero(self._align(samples, forever=True) > 0):
                states[index] = state
        return states

    def _read_pool(self) -> _Floats:
        if _POOL_TOKENS in self._by_base:
            parts = self._by_base[_POOL_TOKENS].values()
            return _largest_known(np.stack([self._align(each, forever=True) for each in parts]))
        return self._read_info("num_gpu_blocks")

    def _read_block_size(self) -> _Floats:
        if _POOL_TOKENS in self._by_base:
            return np.ones(len(self.times_ns))
        return self._read_info("block_size")

    def _read_info(self, label: str) -> _Floats:
        """Return a number that stands in the labels of the engine's description."""
        found = np.full(len(self.times_ns), np.nan)
        newest = np.full(len(self.times_ns), -1, np.int64)
        for name, samples in self._by_base.get(_POOL_INFO, {}).items():
            text = dict(_LABEL.findall(name)).get(label, "")
            if not text.isdigit():
                continue
            index = np.searchsorted(samples.times_ns, self.times_ns, side="right") - 1
            seen = np.where(index >= 0, samples.times_ns[np.maximum(index, 0)], -1)
            found[seen > newest] = float(text)
            newest = np.maximum(newest, seen)
        return found

    def _read_kv(self) -> _Floats:
        if _KV_TOKENS in self._by_base and _POOL_TOKENS in self._by_base:
            used = self._read((_KV_TOKENS,))
            return np.divide(used, self.pool, out=np.full(len(used), np.nan), where=self.pool > 0)
        return self._read(_KV_RATIO)


class _LeastHeld:
    """The smallest that an engine held at rest in one phase, while its scrapes are gone through."""

    __slots__ = ("kv", "num_scrapes", "pool")

    def __init__(self) -> None:
        self.num_scrapes = 0
        self.kv: float | None = None
        self.pool: float | None = None

    def take(self, kv: float, pool: float) -> None:
        """Take a scrape; what is not a number is not known."""
        self.num_scrapes += 1
        if math.isfinite(kv) and (self.kv is None or kv < self.kv):
            self.kv, self.pool = kv, pool if math.isfinite(pool) else None


def _collect_rests(
    scrapes: _Scrapes, at_rest: _Flags, stages: Sequence[str]
) -> tuple[tuple[Rest, ...], tuple[RestWindow, ...]]:
    held: dict[tuple[str, str], _LeastHeld] = {}
    windows: list[RestWindow] = []
    kvs, pools = scrapes.kv.tolist(), scrapes.pool.tolist()
    times_ns: list[int] = scrapes.times_ns.tolist()
    open_phase, start_ns, previous = ("", ""), 0, -1
    for index in map(int, np.flatnonzero(at_rest)):
        stage, sleep = phase = stages[index], scrapes.sleep[index]
        # Asleep there is no cache: its gauges stand as they were.
        is_awake = sleep in ("", AWAKE)
        held.setdefault(phase, _LeastHeld()).take(
            kvs[index] if is_awake else math.nan, pools[index]
        )
        if previous < 0 or previous != index - 1 or phase != open_phase:
            if previous >= 0:
                windows.append(RestWindow(*open_phase, start_ns, times_ns[previous]))
            # It was still since the scrape before, but that may lie in another stage.
            start_ns = times_ns[index - 1 if stages[index - 1] == stage else index]
            open_phase = phase
        previous = index
    if previous >= 0:
        windows.append(RestWindow(*open_phase, start_ns, times_ns[previous]))
    rests = (Rest(*phase, least.num_scrapes, least.kv, least.pool) for phase, least in held.items())
    return tuple(rests), tuple(windows)


def _join_times(each_ns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the times of all series, each once and in order."""
    if len(each_ns) == 1 and bool((np.diff(each_ns[0]) > 0).all()):
        return each_ns[0]
    return np.unique(np.concatenate(each_ns))


def _largest_known(columns: _Floats) -> _Floats:
    """Return the largest value of each column of a table that is known, NaN where none is."""
    largest = np.where(np.isnan(columns), -np.inf, columns).max(axis=0)
    return np.where(np.isfinite(largest), largest, np.nan)


def _smaller(first: Rest, second: Rest) -> Rest:
    def least(name: str) -> float | None:
        known = [value for each in (first, second) if (value := getattr(each, name)) is not None]
        return min(known) if known else None

    return replace(
        first,
        device_bytes=least("device_bytes"),
        device_total_bytes=first.device_total_bytes or second.device_total_bytes,
        host_bytes=least("host_bytes"),
        host_total_bytes=first.host_total_bytes or second.host_total_bytes,
    )


def _mean(values: _Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def _largest(values: _Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if known.size else None


def _growth(values: _Floats) -> float | None:
    """Return by how much a counter grew, falls of a restart left out."""
    known = values[np.isfinite(values)]
    return float(np.maximum(np.diff(known), 0).sum()) if known.size > 1 else None
