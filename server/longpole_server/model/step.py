"""A training step and its ledger: what its seconds were spent on.

Names and units are those of the HTTP API. `None` means not reported.
"""

from dataclasses import dataclass
from typing import Literal

Confidence = Literal["high", "medium", "low"]
Severity = Literal["info", "warning", "critical"]
ClosedBy = Literal["loop", "metrics", "successor"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something about the data that a reader must know (`data_quality` of a diagnosis).

    Attributes:
        code: Closed vocabulary, e.g. `stage.unknown`, `mfu.impossible`, `line.torn`.
        first_step, last_step: Inclusive range it concerns; API: `from`, `to`.
    """

    code: str
    severity: Severity
    summary: str
    metric: str | None = None
    first_step: int | None = None
    last_step: int | None = None


@dataclass(frozen=True, slots=True)
class StageTime:
    """One canonical stage of one step.

    Attributes:
        exclusive_s: Seconds that belong to this stage alone; with `unattributed_s` they add up
            to the step.
        inclusive_s: Seconds from first entry to last exit as measured, overlaps counted.
        share_ratio: `exclusive_s / duration_s`.
        includes: Stages a compound timer covers.
        windows: Every (start_ns, end_ns) of the stage in this step; empty for scalars.
    """

    stage: str
    exclusive_s: float
    inclusive_s: float
    share_ratio: float | None
    start_ns: int | None
    end_ns: int | None
    includes: tuple[str, ...]
    source: Literal["span", "scalar"]
    windows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class OutsideStage:
    """A stage that ran between steps (validation, checkpoint): never part of the step's sum."""

    stage: str
    duration_s: float
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one attempt.

    Attributes:
        closed_by: What ended it; None while it is open.
        duration_s: None while it is open.
        unattributed_s: Seconds no stage covers; None while open or when no stage is known.
        shares: see `stages[].share_ratio`; with `unattributed_s / duration_s` they add up to 1.
        tokens_response: Response tokens of all training samples; `response_length_mean` and
            `response_length_max` of a mean sample and of the longest one.
    """

    run_id: str
    step: int
    attempt: int
    start_ns: int
    end_ns: int | None
    duration_s: float | None
    closed_by: ClosedBy | None
    stages: tuple[StageTime, ...]
    unattributed_s: float | None
    outside: tuple[OutsideStage, ...]
    tokens_total: int | None = None
    throughput_tokens_per_s_per_gpu: float | None = None
    mfu_actor: float | None = None
    mfu_infer: float | None = None
    mfu_step: float | None = None
    gpu_count: int | None = None
    verdict: str | None = None
    confidence: Confidence | None = None
    notes: tuple[Note, ...] = ()
    tokens_response: int | None = None
    response_length_mean: float | None = None
    response_length_max: float | None = None

    def stage(self, name: str) -> StageTime | None:
        """Return the named stage, or None when this step did not report it."""
        return next((stage for stage in self.stages if stage.stage == name), None)


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which GPUs of the run stood idle though the loop ran."""

    start_ns: int
    end_ns: int
    stage: str
    role: str | None
    gpu_count: int
    gpu_seconds: float


@dataclass(frozen=True, slots=True)
class SyncPhase:
    """One phase of the weight sync inside a step."""

    phase: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class StageEnergy:
    """What the GPUs of a role took in a stage's windows, by their drivers' counters.

    Attributes:
        energy_joules: Of all of them; None where some do not tell.
        is_estimated: Whether it is mean power times seconds, where counters do not tell.
    """

    stage: str
    role: str
    gpu_count: int
    energy_joules: float | None
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class StageLane:
    """A stage window of another process than the ledger's: shown as a lane, never added.

    Attributes:
        is_estimate: Whether it is only what the title of the process hinted at, looked at once a
            second.
    """

    stage: str
    role: str
    host: str
    pid: int
    start_ns: int
    end_ns: int
    is_estimate: bool = False
