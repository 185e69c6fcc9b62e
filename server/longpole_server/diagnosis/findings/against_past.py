"""What `regressions` finds against the run's own past, for the reference."""

from longpole_server.diagnosis.finding_kind import FindingKind
from longpole_server.diagnosis.regressions import find_regressions
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Finding

_CHANGE = "finding.change_ratio"


def _find(view: View) -> list[Finding]:
    return list(find_regressions(view))


REGRESSION = FindingKind(
    "regression.<stage>",
    "a stage takes longer than it used to",
    "At equal tokens it takes 1.25 times the baseline's seconds or more, beyond its own scatter; "
    "the baseline is of the same attempt and configuration. Gen is compared at equal responses: by "
    "all response tokens, or by the longest response where the past follows that more closely. "
    "`shape.tokens` stands in its place where only the tokens of a step, or of its responses, "
    "changed.",
    ("stage seconds", "tokens a step", "response tokens", "longest response", "baseline"),
    _find,
    (_CHANGE, "finding.scatter", "finding.min_share"),
)
