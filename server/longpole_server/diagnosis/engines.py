"""What the rollout engines themselves report over gen, all replicas together."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from longpole_server.model.facts import EngineWindow


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines over the gen window of a step, or their medians over several. None is unknown.

    Attributes:
        num_replicas: Engines that reported.
        seconds: Length of the window.
        kv_max_ratio: Of the replica whose KV pool was fullest, 0..1.
        kv_mean_ratio: Mean over the replicas.
        preemptions: Requests preempted or retracted, all replicas.
        recomputed_tokens: Tokens computed again for them, where an engine counts them.
        generated_tokens, prompt_tokens: By the engines' counters.
        running_mean, running_max: Requests decoded together, summed over the replicas.
        waiting_mean: Requests in the queues, summed.
        idle_ratio: Part of the replicas' time with nothing running and nothing waiting.
        queue_beside_idle_s: Seconds in which one replica had a queue while another one had nothing
            to do, at least: queues stand at the beginning of gen, idle time at its end.
        longest_queue: The replica with that queue.
        prefix_hit_ratio: Prompt tokens found in the prefix caches, 0..1.
        prefill_ratio: Part of the requests' compute time spent on prompts, 0..1.
        fill_ratio: Mean running over the most that ran: low when slots stand empty at the end.
        busy_s: Time until the last replica had finished.
    """

    num_replicas: float
    seconds: float
    kv_max_ratio: float | None = None
    kv_mean_ratio: float | None = None
    preemptions: float | None = None
    recomputed_tokens: float | None = None
    generated_tokens: float | None = None
    prompt_tokens: float | None = None
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    idle_ratio: float | None = None
    queue_beside_idle_s: float | None = None
    longest_queue: str | None = None
    prefix_hit_ratio: float | None = None
    prefill_ratio: float | None = None
    fill_ratio: float | None = None
    busy_s: float | None = None

    @property
    def tokens_per_s(self) -> float | None:
        """Generated tokens a second, all replicas."""
        if self.generated_tokens is None or self.seconds <= 0:
            return None
        return self.generated_tokens / self.seconds

    @property
    def tokens_per_s_per_request(self) -> float | None:
        """Decode rate of one running request."""
        rate = self.tokens_per_s
        return rate / self.running_mean if rate is not None and self.running_mean else None


def measure_engines(windows: Sequence[EngineWindow]) -> Engines | None:
    """Return the engines of one step together, None when none reported."""
    known = [window for window in windows if window.seconds > 0]
    if not known:
        return None
    idle = [(w.idle_s or 0.0) / w.seconds for w in known if w.idle_s is not None]
    queue_s, longest = _queue_beside_idle(known)
    return Engines(
        num_replicas=len(known),
        seconds=statistics.median(window.seconds for window in known),
        kv_max_ratio=_over(known, "kv_usage_max_ratio", max),
        kv_mean_ratio=_over(known, "kv_usage_mean_ratio", statistics.fmean),
        preemptions=_over(known, "preemptions", math.fsum),
        recomputed_tokens=_over(known, "recomputed_tokens", math.fsum),
        generated_tokens=_over(known, "generated_tokens", math.fsum),
        prompt_tokens=_over(known, "prompt_tokens", math.fsum),
        running_mean=_over(known, "running_mean", math.fsum),
        running_max=_over(known, "running_max", math.fsum),
        waiting_mean=_over(known, "waiting_mean", math.fsum),
        idle_ratio=statistics.fmean(idle) if idle else None,
        queue_beside_idle_s=queue_s,
        longest_queue=longest,
        prefix_hit_ratio=_hit_ratio(known),
        prefill_ratio=_over(known, "prefill_ratio", statistics.fmean),
        fill_ratio=_fill_ratio(known),
        busy_s=_busy_seconds(known),
    )


def _queue_beside_idle(windows: Sequence[EngineWindow]) -> tuple[float | None, str | None]:
    """Return how long a queue and an idle replica must have stood side by side, and whose queue.

    Both lie in one window: what their lengths exceed it by, they share.
    """
    queues = [(w.queued_s, w.replica) for w in windows if w.queued_s is not None]
    idle = [(w.idle_s, w.replica) for w in windows if w.idle_s is not None]
    if not queues or not idle:
        return None, None
    queued_s, replica = max(queues)
    idle_s = max((seconds for seconds, other in idle if other != replica), default=0.0)
    longest_s = max(window.seconds for window in windows)
    return max(0.0, queued_s + idle_s - longest_s), replica


def kv_usage_at_rest(windows: Sequence[EngineWindow]) -> float | None:
    """Return the most of a KV pool that was taken while its engine had nothing to do."""
    return _over(windows, "kv_usage_idle_ratio", max)


def tokens_per_second(windows: Sequence[EngineWindow]) -> float | None:
    """Return the generated tokens a second of all engines of a step."""
    rates = [
        window.generated_tokens / window.seconds
        for window in windows
        if window.generated_tokens is not None and window.seconds > 0
    ]
    return math.fsum(rates) if rates else None


def running_requests(windows: Sequence[EngineWindow]) -> float | None:
    """Return the requests that all engines of a step decoded together."""
    return _over(windows, "running_mean", math.fsum)


def combine_engines(parts: Sequence[Engines]) -> Engines | None:
    """Return the medians over several steps, None without any."""
    if len(parts) < 2:
        return parts[0] if parts else None

    def median(name: str) -> float | None:
        known = [value for part in parts if (value := getattr(part, name)) is not None]
        return statistics.median(known) if known else None

    numbers = {field.name: median(field.name) for field in fields(Engines) if _is_number(field)}
    names = [part.longest_queue for part in parts if part.longest_queue is not None]
    replicas, seconds = numbers.pop("num_replicas"), numbers.pop("seconds")
    return Engines(
        replicas or 0.0,
        seconds or 0.0,
        **numbers,
        longest_queue=statistics.mode(names) if names else None,
    )


def _is_number(field: object) -> bool:
    return getattr(field, "name", "") != "longest_queue"


def _over(
    windows: Sequence[EngineWindow], name: str, reduce: Callable[[list[float]], float]
) -> float | None:
    known = [value for window in windows if (value := getattr(window, name)) is not None]
    return reduce(known) if known else None


def _hit_ratio(windows: Sequence[EngineWindow]) -> float | None:
    """Prefix hits by prompt tokens where every engine counts them."""
    known = [window for window in windows if window.prefix_hit_ratio is not None]
    if not known:
        return None
    weights = [window.prompt_tokens or 0.0 for window in known]
    if min(weights) <= 0:
        weights = [1.0] * len(known)
    hits = math.fsum(
        (window.prefix_hit_ratio or 0.0) * weight
        for window, weight in zip(known, weights, strict=True)
    )
    return hits / math.fsum(weights)


def _fill_ratio(windows: Sequence[EngineWindow]) -> float | None:
    """Mean running over the most that ran, each replica's most counted at its own time."""
    known = [w for w in windows if w.running_mean is not None and w.running_max]
    most = math.fsum(window.running_max or 0.0 for window in known)
    return math.fsum(window.running_mean or 0.0 for window in known) / most if most else None


def _busy_seconds(windows: Sequence[EngineWindow]) -> float | None:
    known = [w.seconds - w.idle_s for w in windows if w.idle_s is not None]
    return max(known) if known else None
