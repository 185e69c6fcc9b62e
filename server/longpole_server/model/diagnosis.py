"""A diagnosis: what the loop waits for, with proof. Schema `longpole.diagnosis/1` in types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from longpole_server.model.annotations import VerdictChange
from longpole_server.model.decomposition import Decomposition
from longpole_server.model.step import Confidence, Note, Severity

SCHEMA = "longpole.diagnosis/1"

Effect = Literal["supports", "contradicts"]
Layer = Literal["outer", "inner", "other_side"]
Comparison = Literal["threshold", "baseline", "peer", "share"]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a value is compared with."""

    kind: Comparison
    value: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """One measured number that speaks for or against a verdict.

    Attributes:
        metric: Name of the metric, e.g. `share/gen`, `perf/mfu/actor`.
        unit: `1`, `s`, `tokens`, ...
        source: Where the number came from: `spans`, `scalars`, `trajectories`, `gpus`, ...
    """

    metric: str
    value: float
    unit: str
    compared_with: Reference | None
    effect: Effect
    layer: Layer
    source: str


@dataclass(frozen=True, slots=True)
class Entity:
    """What a finding is about: kind `gpu`, `replica`, `stage`, `tool`, ..."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something worth knowing beside the verdict."""

    code: str
    severity: Severity
    entity: Entity | None
    first_step: int
    last_step: int
    summary: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class NextLook:
    """What to look at or try next, with the configuration keys it concerns."""

    text: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mfu:
    """One MFU figure. `value` is None when unknown and `reason` then says why."""

    value: float | None
    source: Literal["reported", "computed"] | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Outside:
    """Seconds per step spent on a stage between steps."""

    duration_s: float
    ratio_to_step: float


@dataclass(frozen=True, slots=True)
class Throughput:
    """Means over the window: tokens/s/GPU, tokens and seconds a step, GPUs."""

    tokens_per_s_per_gpu: float | None
    tokens: float | None
    step_s: float | None
    gpus: int | None
    baseline: float | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """A step of the window that was not judged."""

    step: int
    reason: str


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """The verdict of one step of the window."""

    step: int
    duration_s: float
    verdict: str | None
    confidence: Confidence | None
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sources:
    """Layers of evidence: those that a verdict used, and those that could speak but are silent."""

    used: tuple[str, ...] = ()
    not_reported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowChange:
    """What changed from the earlier half of a window to the later one.

    Attributes:
        before, after: First and last judged step of each half.
        decomposition: The change of throughput, in parts that add up to it.
    """

    before: tuple[int, int]
    after: tuple[int, int]
    decomposition: Decomposition


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`longpole.diagnosis/1`. `first_step`/`last_step` are `window.from`/`window.to`.

    Attributes:
        recoverable_s_per_step_range: Lowest and highest of the estimate.
        recoverable_formula: How it is estimated, in words; without an estimate why there is none.
        decomposition: What changed within the window; None when it is too short.
        step_s: Seconds of the step that the shares are parts of, single outliers drawn in.
    """

    run_id: str
    run_name: str
    system: str | None
    mode: str | None
    first_step: int | None
    last_step: int | None
    num_judged: int
    excluded: tuple[Excluded, ...]
    verdict: str | None
    cause: str | None
    confidence: Confidence | None
    summary: str
    recoverable_s_per_step: float | None
    recoverable_gpu_hours_per_day: float | None
    shares: Mapping[str, float]
    outside: Mapping[str, Outside]
    throughput: Throughput
    mfu: Mapping[str, Mfu]
    evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    next: tuple[NextLook, ...]
    data_quality: tuple[Note, ...]
    annotations: tuple[VerdictChange, ...] = ()
    steps: tuple[StepVerdict, ...] = field(default=())
    recoverable_s_per_step_range: tuple[float, float] | None = None
    recoverable_formula: str | None = None
    sources: Sources = field(default_factory=Sources)
    decomposition: WindowChange | None = None
    step_s: float | None = None
