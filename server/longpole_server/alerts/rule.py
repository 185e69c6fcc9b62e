"""Rules as data, and what a detector is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from longpole_server.alerts.history import History
from longpole_server.model.alert import AlertEvidence, RuleKind, Trigger, UserRule
from longpole_server.model.step import Severity

DEFAULT_COOLDOWN_S = 900.0
# Element of the run page that most rules point to.
DEFAULT_PANEL = "run-health"
# Those of the run page that are drawn over time, and the page of a node.
GPU_PANEL = "run-gpus"
ENGINES_PANEL = "run-engines"
NODE_PANEL = "node"
DEFAULT_REPEAT_S = 4 * 3_600.0


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a detector found on one entity at one moment.

    Attributes:
        firing: Whether the condition is met.
        cleared: Whether what fired is over; between the two thresholds neither holds.
        value: What was measured, None when nothing can be judged.
        threshold: What `value` is compared with.
        baseline: What is usual, where the rule knows that.
        words: Further words for the rule's texts, by name.
        quiet_because: Why it does not fire; None while it does.
    """

    firing: bool
    cleared: bool
    value: float | None
    threshold: float | None
    unit: str
    baseline: float | None = None
    evidence: tuple[AlertEvidence, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    quiet_because: str | None = None

    @property
    def is_judged(self) -> bool:
        """Whether there was anything to judge."""
        return self.value is not None


def not_judgeable(why: str, unit: str = "1") -> Judgement:
    """Return that nothing can be said, and why."""
    return Judgement(False, False, None, None, unit, quiet_because=f"not judgeable: {why}")


class Detector(Protocol):
    """Decides from a history whether something is wrong. Stateless: the history is all it has.

    Attributes are read-only. `fire` and `clear` are thresholds in `unit`; None where a detector
    has no single number.
    """

    @property
    def fire(self) -> float | None:
        """Threshold beyond which it fires."""
        ...

    @property
    def clear(self) -> float | None:
        """Threshold at which what fired is over."""
        ...

    @property
    def unit(self) -> str:
        """Unit of both."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of what it reads."""
        ...

    def judge(self, history: History) -> Judgement:
        """Judge `history.entity` at `history.moment`."""
        ...


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it reads, when it fires, and what people are told.

    Attributes:
        kind: `trend` rules are left out while a run warms up, after a resume, and in steps with a
            validation or a checkpoint; faults and exceeded bounds always count.
        entity_kind: `run`, `gpu`, `host`, `replica` or `server`.
        trigger: Judged when a step closes, or as time goes by.
        condition: When it fires, in words.
        summary, cause, first_look: Texts; `{value}`, `{threshold}`, `{baseline}`, `{entity}` and
            the detector's own words are filled in.
        for_steps, for_s: How long the condition must hold before it fires: in so many steps that
            tell, one after the other; those that say nothing of it do not count.
        yields_to: Rules whose alert on the same entity, or on the node of a GPU, says all there is
            to say: while one of them fires this one keeps still, and what it raised is over.
        panel: Element of the run page that shows what it is about; `NODE_PANEL` is the node's page.
        user: As it was saved, for rules that users made.
    """

    rule_id: str
    title: str
    kind: RuleKind
    severity: Severity
    detector: Detector
    condition: str
    summary: str
    cause: str
    first_look: str
    entity_kind: str = "run"
    trigger: Trigger = "step"
    for_steps: int = 1
    for_s: float = 0.0
    cooldown_s: float = DEFAULT_COOLDOWN_S
    repeat_s: float = DEFAULT_REPEAT_S
    yields_to: tuple[str, ...] = ()
    panel: str = DEFAULT_PANEL
    user: UserRule | None = None
