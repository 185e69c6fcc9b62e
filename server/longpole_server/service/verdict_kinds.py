"""The decision table in words, for whoever shows verdicts and may not see the rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from longpole_server.diagnosis.rules import BALANCED, RULES
from longpole_server.diagnosis.thresholds import THRESHOLDS


@dataclass(frozen=True, slots=True)
class VerdictKind:
    """One row of the decision table.

    Attributes:
        code: The verdict, from the closed list of `longpole.diagnosis/1`.
        title: What the loop waits for, as a short phrase.
        proof: What has to be measured beside dominance.
        look: Where to look next.
    """

    code: str
    title: str
    proof: str
    look: str


def _list_kinds() -> tuple[VerdictKind, ...]:
    limits = {threshold.name: threshold.value for threshold in THRESHOLDS}
    kinds = [
        VerdictKind(
            rule.code,
            rule.title[0].upper() + rule.title[1:],
            rule.proof,
            " ".join(advice.text for advice in rule.next),
        )
        for rule in RULES
    ]
    balanced = VerdictKind(
        BALANCED,
        "Balanced: no side is the one to wait for",
        f"No family has {limits['dominance.share']:.0%} of the step and "
        f"{limits['dominance.margin'] * 100:.0f} points more than the next.",
        "The two largest families, each with its own next look.",
    )
    return (*kinds, balanced)


VERDICT_KINDS: tuple[VerdictKind, ...] = _list_kinds()
VERDICTS: Mapping[str, VerdictKind] = MappingProxyType({kind.code: kind for kind in VERDICT_KINDS})
