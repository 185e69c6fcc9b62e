"""What engines' log lines say of one step, replica by replica."""

import math
from collections.abc import Iterable, Sequence

from longpole_server.importers.engine_lines import (
    PREEMPTIONS,
    RETRACTIONS,
    EngineLine,
)
from longpole_server.model.facts import EngineWindow

_RUNNING = ("vllm:num_requests_running", "sglang:num_running_reqs")
_WAITING = ("vllm:num_requests_waiting", "sglang:num_queue_reqs")
_KV_USAGE = ("vllm:kv_cache_usage_perc", "sglang:token_usage")
_PREFIX_HITS = ("vllm:prefix_cache_hit_rate", "sglang:cache_hit_rate")
_PREEMPTED = (PREEMPTIONS, RETRACTIONS)


def make_engine_windows(lines: Iterable[EngineLine], seconds: float) -> tuple[EngineWindow, ...]:
    """Return one window for each replica that reported its load.

    Args:
        lines: What the engines said while the step ran.
        seconds: Length of the step's generation.
    """
    by_replica: dict[str, list[EngineLine]] = {}
    for line in lines:
        by_replica.setdefault(line.replica, []).append(line)
    windows = (_make(replica, said, seconds) for replica, said in sorted(by_replica.items()))
    return tuple(window for window in windows if window.running_mean is not None)


def _make(replica: str, lines: Sequence[EngineLine], seconds: float) -> EngineWindow:
    # After the last request has ended an engine repeats its last numbers, or zeros: no load.
    busy = [line for line in lines if _tells_no_load(line) or sum(_load(line)) > 0]
    running, waiting = _values(busy, _RUNNING), _values(busy, _WAITING)
    usage = _values(busy, _KV_USAGE)
    hits = _values(busy, _PREFIX_HITS)
    preempted = _values(lines, _PREEMPTED)
    return EngineWindow(
        replica=replica,
        seconds=seconds,
        kv_usage_mean_ratio=_mean(usage),
        kv_usage_max_ratio=max(usage, default=None),
        running_mean=_mean(running),
        running_max=max(running, default=None),
        waiting_mean=_mean(waiting),
        waiting_max=max(waiting, default=None),
        preemptions=math.fsum(preempted) if preempted else None,
        prefix_hit_ratio=hits[-1] if hits else None,
    )


def _load(line: EngineLine) -> list[float]:
    return _values([line], _RUNNING + _WAITING)


def _tells_no_load(line: EngineLine) -> bool:
    return not _load(line)


def _values(lines: Iterable[EngineLine], names: Sequence[str]) -> list[float]:
    return [line.values[name] for line in lines for name in names if name in line.values]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
