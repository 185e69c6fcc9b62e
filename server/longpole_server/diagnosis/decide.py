"""From a view to one decision: which family dominates, which of its rules holds, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.diagnosis.confidence import look_at_other_side, rate_confidence
from longpole_server.diagnosis.families import (
    FAMILY_LABELS,
    OUTSIDE,
    WAIT,
    Standing,
    rank_families,
    stages_of,
)
from longpole_server.diagnosis.proof import Proof, Rule, outer, threshold
from longpole_server.diagnosis.rules import BALANCED, ROLLOUT_RULES, rules_of
from longpole_server.diagnosis.verl_keys import existing_keys
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import Evidence, NextLook, Reference
from longpole_server.model.step import Confidence

# How near the largest share may come to dominance before `balanced` is uncertain.
_NEAR_DOMINANCE = 0.02
# Of looks that advise an asynchronous mode, which is none where one runs.
_MODE_KEY = "trainer.v1.trainer_mode"
_STARVED = "async.trainer_starved"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its proof, before it is put into a diagnosis."""

    verdict: str | None
    cause: str | None
    confidence: Confidence | None
    summary: str
    recoverable_s: float | None
    evidence: tuple[Evidence, ...]
    next: tuple[NextLook, ...]


def decide(view: View) -> Decision:
    """Judge a view with at least one judged step."""
    standing = rank_families(view)
    if view.separate_pools:
        starved = _first_proof(rules_of(WAIT), view)
        if starved is not None:
            return _decide_async(view, *starved)
    if standing.dominant is None:
        return _decide_balanced(view, standing)
    rule, proof = _prove(standing.dominant, view)
    other_side = look_at_other_side(standing.dominant, view)
    return Decision(
        rule.code,
        None,
        rate_confidence(proof, other_side),
        _sentence(rule, proof, _outer_words(view, standing, standing.dominant)),
        proof.recoverable_s,
        (*_outer_rows(view, standing, standing.dominant), *proof.evidence, *other_side),
        _for_system(rule.next, view),
    )


def _first_proof(rules: Sequence[Rule], view: View) -> tuple[Rule, Proof] | None:
    for rule in rules:
        proof = rule.judge(view)
        if proof is not None:
            return rule, proof
    return None


def _prove(family: str, view: View) -> tuple[Rule, Proof]:
    found = _first_proof(rules_of(family), view)
    if found is None:
        raise AssertionError(f"the rules of family {family} leave a gap")
    return found


def _decide_async(view: View, rule: Rule, proof: Proof) -> Decision:
    other_side = look_at_other_side(WAIT, view)
    evidence = (*proof.evidence, *other_side)
    cause: str | None = None
    looks = rule.next
    if rule.code == _STARVED:
        found = _first_proof(ROLLOUT_RULES, view)
        if found is not None:
            cause = found[0].code
            evidence = (*evidence, *found[1].evidence)
            looks = (*looks, *found[0].next)
            proof = Proof(
                f"{proof.because}; behind it, {found[1].because}",
                proof.evidence,
                proof.inner_agrees,
                proof.at_most,
                proof.recoverable_s,
            )
    return Decision(
        rule.code,
        cause,
        rate_confidence(proof, other_side),
        _sentence(rule, proof, None),
        proof.recoverable_s,
        evidence,
        _for_system(looks, view),
    )


def _decide_balanced(view: View, standing: Standing) -> Decision:
    ranked = [(family, share) for family, share in standing.ranked() if share > 0]
    limit = view.limits["dominance.share"]
    rows = tuple(
        outer(f"share/{family}", share, "1", view.ledger_source, Reference("threshold", limit))
        for family, share in ranked[:2]
    )
    looks = tuple(_prove(family, view)[0].next[0] for family, _ in ranked[:2])
    parts = [f"{FAMILY_LABELS[family]} {percent(share)}" for family, share in ranked[:3]]
    listed = " and ".join(", ".join(parts).rsplit(", ", 1))
    near = bool(ranked) and ranked[0][1] > limit - _NEAR_DOMINANCE
    return Decision(
        BALANCED,
        None,
        "low" if near else "medium",
        f"No side is the one to wait for: of each {seconds(view.step_s)} step, {listed}.",
        None,
        rows,
        _for_system(looks, view),
    )


def _outer_rows(view: View, standing: Standing, family: str) -> tuple[Evidence, ...]:
    source = view.ledger_source
    if family == OUTSIDE:
        limit = threshold(view, "outside.ratio")
        return (outer("outside_ratio", standing.outside_ratio, "1", source, limit),)
    names = stages_of(family, view)
    metric = f"share/{names[0]}" if len(names) == 1 else f"share/{family}"
    share = standing.shares[family]
    rows = [outer(metric, share, "1", source, threshold(view, "dominance.share"))]
    others = [other for name, other in standing.ranked() if name != family]
    if others:
        rows.append(
            outer(f"{metric}/lead", share - others[0], "1", source, Reference("share", others[0]))
        )
    return tuple(rows)


def _outer_words(view: View, standing: Standing, family: str) -> str:
    if family == OUTSIDE:
        return f"they take {percent(standing.outside_ratio)} of the steps' own time"
    names = stages_of(family, view)
    who = label(names[0]) if len(names) == 1 else FAMILY_LABELS[family]
    return f"{who} takes {percent(standing.shares[family])} of each {seconds(view.step_s)} step"


def _sentence(rule: Rule, proof: Proof, outer_words: str | None) -> str:
    title = rule.title[0].upper() + rule.title[1:]
    reasons = proof.because if outer_words is None else f"{outer_words}; {proof.because}"
    sentence = f"{title}: {reasons}."
    if proof.recoverable_s is not None and proof.recoverable_s >= 0.1:
        sentence += f" Fixing it would give back about {seconds(proof.recoverable_s)} a step."
    return sentence


def _for_system(looks: Sequence[NextLook], view: View) -> tuple[NextLook, ...]:
    """Return next looks with the keys that exist; keys are verl's and shown for verl only."""
    if view.separate_pools:
        looks = [look for look in looks if _MODE_KEY not in look.keys]
    if view.run.system not in (None, "verl"):
        return tuple(NextLook(look.text) for look in looks)
    version = view.run.system_version
    return tuple(
        NextLook(look.text, existing_keys(look.keys, version, view.mode)) for look in looks
    )
