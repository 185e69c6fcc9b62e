"""How fast single GPUs and replicas are against the best of their kind."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuScore:
    """One GPU against the best of its role, by the SM clock at work. None is not reported.

    Attributes:
        sm_clock_hz: Mean at work.
        of_best_ratio: Its clock over the best one of its role, 0..1: what a collective loses by
            waiting for it.
        throttled_ratio: Part of its samples at work that name a slowdown for heat or power
            delivery.
        reasons: Those by name.
        is_straggler: Whether it is well below the usual GPU of its role, with enough of them.
        power_watts: Mean at work.
        rank: Of the process on it, as its launcher says.
    """

    gpu_uuid: str
    host: str
    gpu_index: int
    role: str
    sm_clock_hz: float | None
    of_best_ratio: float | None
    throttled_ratio: float | None
    reasons: tuple[str, ...]
    is_straggler: bool
    power_watts: float | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaScore:
    """One replica against the best, by the decode seconds of a response token.

    Attributes:
        of_best_ratio: The best replica's seconds a token over its own, 0..1.
        like_lengths_ratio: Its seconds over what the others take for samples of like length; None
            where none are alike. Longer answers alone make nobody a straggler.
        is_straggler: Whether both its pace and that of like samples is well above the others'.
    """

    replica: str
    num_samples: int
    seconds_per_token: float
    of_best_ratio: float
    like_lengths_ratio: float | None
    is_straggler: bool


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Paces of a step, the slowest first; empty where nobody tells."""

    gpus: tuple[GpuScore, ...] = ()
    replicas: tuple[ReplicaScore, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStanding(GpuScore):
    """One GPU over several steps: medians of what it was in each, all reasons that were named.

    Attributes:
        is_straggler: Whether it was one in half of these steps or more.
        num_steps: Steps in which its clock is known.
        num_slow: Steps in which it was a straggler.
    """

    num_steps: int
    num_slow: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStanding(ReplicaScore):
    """One replica over several steps: medians of what it was in each; its samples added up.

    Attributes:
        is_straggler: Whether it was one in half of these steps or more.
        num_steps: Steps in which its pace is known.
        num_slow: Steps in which it was a straggler.
    """

    num_steps: int
    num_slow: int


@dataclass(frozen=True, slots=True)
class RunStragglers:
    """Paces over a range of steps: who was slow most often first, then the slowest.

    Attributes:
        first_step, last_step: The closed steps that were looked at, None without any.
        num_steps: How many these are.
    """

    first_step: int | None = None
    last_step: int | None = None
    num_steps: int = 0
    gpus: tuple[GpuStanding, ...] = ()
    replicas: tuple[ReplicaStanding, ...] = ()
