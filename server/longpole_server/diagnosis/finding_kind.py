"""What a finding is made of."""

from collections.abc import Callable
from dataclasses import dataclass, field

from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Entity, Evidence, Finding
from longpole_server.model.step import Severity


@dataclass(frozen=True, slots=True)
class FindingKind:
    """One kind of finding: how it is made and how it is explained.

    Attributes:
        code: Its code; a name in angle brackets stands for what it is about.
        title: What it says, as a short phrase.
        proof: What it takes.
        reads: Metrics and facts it looks at.
        thresholds: Names of the limits it is made by.
        find: Returns what is found in a window with at least one judged step.
    """

    code: str
    title: str
    proof: str
    reads: tuple[str, ...]
    find: Callable[[View], list[Finding]] = field(repr=False)
    thresholds: tuple[str, ...] = ()


def make_finding(
    view: View,
    code: str,
    severity: Severity,
    summary: str,
    evidence: tuple[Evidence, ...] = (),
    entity: Entity | None = None,
) -> Finding:
    """Return a finding about the whole window."""
    judged = view.window.judged
    return Finding(code, severity, entity, judged[0].step, judged[-1].step, summary, evidence)
