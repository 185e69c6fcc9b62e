"""Two windows of steps beside each other: of two runs, or of one."""

from dataclasses import dataclass
from typing import Literal

from longpole_server.model.decomposition import Decomposition
from longpole_server.model.diagnosis import Excluded, Finding

COMPARISON_SCHEMA = "longpole.comparison/1"

ConfigChange = Literal["changed", "added", "removed"]
SampleMetric = Literal["duration_s", "output_tokens"]


@dataclass(frozen=True, slots=True)
class ComparedWindow:
    """The judged steps of one side.

    Attributes:
        first_step, last_step: Of the judged steps; as asked for without any. API: `from`, `to`.
        num_judged: Steps that count.
        attempts: Those the judged steps belong to.
        verdict: What most of the judged steps were found to wait for when they closed; None when
            no step has a verdict.
        num_verdict: Steps that were found to wait for that.
    """

    run_id: str
    run_name: str
    first_step: int | None
    last_step: int | None
    num_judged: int
    excluded: tuple[Excluded, ...]
    attempts: tuple[int, ...]
    verdict: str | None = None
    num_verdict: int = 0


@dataclass(frozen=True, slots=True)
class Quantiles:
    """One figure of the training samples of a window; None when no sample reports it.

    Attributes:
        count: Samples that report it.
    """

    count: int
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class SampleDistribution:
    """How one figure of the training samples is distributed on both sides."""

    metric: SampleMetric
    unit: str
    before: Quantiles
    after: Quantiles


@dataclass(frozen=True, slots=True)
class ConfigDifference:
    """A setting that differs. `added` is there after only, `removed` before only."""

    key: str
    change: ConfigChange
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from one window (`before`) to another (`after`).

    Attributes:
        findings: Stages that take longer for as much work, and steps of another shape.
        remarks: What to know beside the decomposition's own remarks, one sentence each.
    """

    before: ComparedWindow
    after: ComparedWindow
    decomposition: Decomposition
    distributions: tuple[SampleDistribution, ...]
    config: tuple[ConfigDifference, ...]
    findings: tuple[Finding, ...] = ()
    remarks: tuple[str, ...] = ()
