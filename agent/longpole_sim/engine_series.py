"""What a rollout engine's own metrics show, under the names that vLLM gives them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from longpole_sim.cluster import Replica
from longpole_sim.plan import PartPlan, TrajectoryPlan
from longpole_sim.rollout import PREEMPTED
from longpole_sim.scenario import Scenario

# Sequences that an engine decodes at once where a scenario does not cap them (`max_num_seqs`).
DEFAULT_CAPACITY = 256
# What an engine's KV cache holds when nothing limits it, in tokens per GPU.
_ROOM_PER_GPU = 100_000.0
# Where nothing limits it, it is never fuller than this.
_USUAL_FILL = 0.5
_PEAK_SAMPLES = 64
_PREFILL = "prefill queue"

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
KV_USAGE = "vllm:kv_cache_usage_perc"
PREEMPTIONS = "vllm:num_preemptions_total"
RECOMPUTED = "vllm:prompt_tokens_recomputed_total"
PROMPT, GENERATED = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
PREFILL_S = "vllm:request_prefill_time_seconds_sum"
DECODE_S = "vllm:request_decode_time_seconds_sum"
GAUGES = (RUNNING, WAITING, KV_USAGE)
COUNTERS = (
    *(PREEMPTIONS, RECOMPUTED, PROMPT, GENERATED, QUERIES, HITS),
    *(PREFILL_S, DECODE_S),
)


def kv_pool(scenario: Scenario, replica: Replica, peak_tokens: float) -> float:
    """Return how many tokens a replica's KV cache holds.

    Args:
        scenario: Says what limits it.
        replica: Its GPUs.
        peak_tokens: The most that it holds at once during a rollout.
    """
    if scenario.kv_fill is not None:
        return max(1.0, peak_tokens / scenario.kv_fill)
    if scenario.kv_tokens is not None:
        return scenario.kv_tokens * len(replica.gpus)
    return max(_ROOM_PER_GPU * len(replica.gpus), peak_tokens / _USUAL_FILL)


def kv_leaked(scenario: Scenario, step: int) -> float:
    """Return the part of the KV cache that earlier steps never gave back."""
    return min(1.0, scenario.kv_floor_per_step * (step - scenario.first_step))


class EngineMeter:
    """The metrics of one replica's engine, read like a scrape: gauges, and counters since start.

    Times are seconds of the step that `show` was told.
    """

    def __init__(self, scenario: Scenario, replica: Replica) -> None:
        self._scenario = scenario
        self._replica = replica
        self._counters = dict.fromkeys(COUNTERS, 0.0)
        self._items: Sequence[TrajectoryPlan] = ()
        self._parts: Sequence[PartPlan] = ()
        self._pool = 1.0
        self._leaked = 0.0

    def show(self, step: int, items: Sequence[TrajectoryPlan]) -> None:
        """Take what the replica works on from now on."""
        self._items = [item for item in items if item.replica == self._replica.name]
        self._parts = [part for item in self._items for part in item.parts]
        self._leaked = kv_leaked(self._scenario, step)
        self._pool = kv_pool(self._scenario, self._replica, self._peak_tokens())

    def advance(self, from_s: float, to_s: float) -> None:
        """Count what happened between two seconds of the step."""
        counters = self._counters
        for item in self._items:
            if from_s < item.start_s <= to_s:
                counters[PROMPT] += item.input_tokens
                counters[QUERIES] += item.input_tokens
                counters[HITS] += item.cached_tokens
        before: PartPlan | None = None
        for part in self._parts:
            overlap_s = min(to_s, part.end_s) - max(from_s, part.start_s)
            if part.kind == "generate" and overlap_s > 0:
                counters[GENERATED] += part.tokens * overlap_s / (part.end_s - part.start_s)
                counters[DECODE_S] += overlap_s
            elif part.name == _PREFILL and overlap_s > 0:
                counters[PREFILL_S] += overlap_s
            elif part.name == PREEMPTED and from_s < part.start_s <= to_s and before is not None:
                counters[PREEMPTIONS] += 1
                counters[RECOMPUTED] += before.kv_tokens + before.tokens
            before = part

    def read(self, second: float) -> Mapping[str, float]:
        """Return all series at a second of the step."""
        at_work = [part for part in self._parts if part.start_s <= second < part.end_s]
        return MappingProxyType(
            {
                RUNNING: float(sum(part.kind == "generate" for part in at_work)),
                WAITING: float(sum(part.kind == "queue" for part in at_work)),
                KV_USAGE: min(1.0, _held_tokens(at_work, second) / self._pool + self._leaked),
                **self._counters,
            }
        )

    def _peak_tokens(self) -> float:
        if not self._parts:
            return 0.0
        start_s = min(part.start_s for part in self._parts)
        width_s = (max(part.end_s for part in self._parts) - start_s) / _PEAK_SAMPLES
        times = [start_s + i * width_s for i in range(_PEAK_SAMPLES)]
        return max(
            _held_tokens([part for part in self._parts if part.start_s <= now < part.end_s], now)
            for now in times
        )


def _held_tokens(parts: Sequence[PartPlan], second: float) -> float:
    return sum(
        part.kv_tokens + part.tokens * (second - part.start_s) / (part.end_s - part.start_s)
        for part in parts
        if part.kind == "generate"
    )
