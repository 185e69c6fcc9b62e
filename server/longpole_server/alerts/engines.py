"""What the engine of one replica did in one step, and how it stood while it was at rest.

An engine is at rest when nothing runs, nothing waits, and its token counters stood still from one
scrape to the next. Only then is what it still holds a floor; anything else grows with its samples.
"""

from dataclasses import dataclass

AWAKE = "awake"


@dataclass(frozen=True, slots=True)
class Rest:
    """An engine at rest in one phase of a step: the smallest of what it held. None is unknown.

    Attributes:
        stage: What the trainer did meanwhile, empty between stages.
        sleep: Sleep state of the engine (`awake`, `weights_offloaded`, `discard_all`), empty where
            it names none.
        kv_used_ratio: Part of the KV pool that was taken, 0..1; asleep it is not known.
        pool_size: Blocks or tokens of the KV pool.
        device_bytes, device_total_bytes: Memory of a GPU of the replica, the mean over its GPUs, of
            all processes on it.
        host_bytes, host_total_bytes: Memory of its node.
    """

    stage: str
    sleep: str
    num_scrapes: int
    kv_used_ratio: float | None = None
    pool_size: float | None = None
    device_bytes: float | None = None
    device_total_bytes: float | None = None
    host_bytes: float | None = None
    host_total_bytes: float | None = None

    @property
    def phase(self) -> tuple[str, str]:
        """Only rests of one phase are compared with each other."""
        return self.stage, self.sleep


@dataclass(frozen=True, slots=True)
class EngineStep:
    """One replica's engine over one step. None is not reported.

    Attributes:
        rests: One for each phase in which it was at rest.
        restless_because: Why there is none, None where there is.
        tokens_first, tokens_last: Its token counters at the first and last scrape.
        is_restarted: Whether a counter fell back within the step.
        running_mean: Requests running, over the scrapes with any.
        context_mean: Tokens of context a running request holds, over the same scrapes.
        busy_s: Seconds with anything running.
        generated_tokens, preemptions: Of the step, by its counters.
        blocks_not_freed: Blocks that the engine itself says were not freed when it reset its
            prefix cache.
    """

    replica: str
    num_scrapes: int
    rests: tuple[Rest, ...] = ()
    restless_because: str | None = None
    tokens_first: float | None = None
    tokens_last: float | None = None
    is_restarted: bool = False
    running_mean: float | None = None
    context_mean: float | None = None
    busy_s: float | None = None
    generated_tokens: float | None = None
    preemptions: float | None = None
    blocks_not_freed: float | None = None
