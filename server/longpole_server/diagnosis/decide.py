"""From a view to one decision: which family dominates, which of its rules holds, how sure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from longpole_server.diagnosis.confidence import (
    allow_for_few_samples,
    look_at_other_side,
    rate_confidence,
)
from longpole_server.diagnosis.families import (
    FAMILY_LABELS,
    OUTSIDE,
    ROLLOUT,
    WAIT,
    Standing,
    rank_families,
    stages_of,
)
from longpole_server.diagnosis.framework_keys import find_keys
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, outer, threshold
from longpole_server.diagnosis.rules import BALANCED, ROLLOUT_RULES, rules_of
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import label, percent, seconds
from longpole_server.model.diagnosis import Evidence, NextLook, Reference, Sources
from longpole_server.model.step import Confidence

_TRAINER_STARVED = "async.trainer_starved"
_ROLLOUT_STARVED = "async.rollout_starved"
# What is less than this a step is not worth a sentence.
_LEAST_SAID_S = 0.1
# What rules say that have no estimate whatever is reported.
_NOT_ESTIMATED = "not estimated"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its proof, before it is put into a diagnosis.

    Attributes:
        recoverable_s: Estimate of the seconds a step that fixing it gives back.
        recoverable_range_s: Lowest and highest of the estimate.
        recoverable_formula: How it is estimated, in words; without an estimate why not.
        sources: Layers that the verdict used, and those that could have spoken.
    """

    verdict: str | None
    cause: str | None
    confidence: Confidence | None
    summary: str
    recoverable_s: float | None
    evidence: tuple[Evidence, ...]
    next: tuple[NextLook, ...]
    recoverable_range_s: tuple[float, float] | None = None
    recoverable_formula: str | None = None
    sources: Sources = field(default_factory=Sources)


def decide(view: View) -> Decision:
    """Judge a view with at least one judged step."""
    standing = rank_families(view)
    if view.separate_pools:
        starved = _first_proof(rules_of(WAIT), view)
        if starved is not None:
            return _decide_async(view, *starved)
    if standing.dominant is None:
        return _decide_balanced(view, standing)
    family = standing.dominant
    rule, proof = _prove(family, view)
    proof = _cap(proof, _family_seconds(view, family))
    if family == ROLLOUT:
        proof = allow_for_few_samples(proof, view)
    other_side = look_at_other_side(family, view)
    evidence = (*_outer_rows(view, standing, family), *proof.evidence, *other_side)
    words = _outer_words(view, standing, family)
    looks = (*proof.first, *rule.next)
    return _make_decision(view, rule, None, proof, other_side, evidence, looks, words)


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
    proof = _cap(proof, view.step_s)
    other_side = look_at_other_side(WAIT, view)
    evidence = (*proof.evidence, *other_side)
    cause: Rule | None = None
    looks = rule.next
    found = _find_cause(rule, view)
    if found is not None:
        cause, behind = found
        evidence = (*evidence, *behind.evidence)
        looks = (*looks, *behind.first, *cause.next)
        # A full buffer proves itself; what a starved trainer waits for lies inside the rollout.
        sure = rule.code == _ROLLOUT_STARVED
        proof = replace(
            proof,
            because=f"{proof.because}; {_behind(view)}, {behind.because}",
            at_most=proof.at_most if sure else _lower(proof.at_most, behind),
        )
    return _make_decision(view, rule, cause, proof, other_side, evidence, looks, None)


def _find_cause(rule: Rule, view: View) -> tuple[Rule, Proof] | None:
    """Return what makes one side slow: the rollout's inside, or what the trainer does most."""
    if rule.code == _TRAINER_STARVED:
        return _first_proof(ROLLOUT_RULES, view)
    dominant = rank_families(view).dominant
    if rule.code == _ROLLOUT_STARVED and dominant is not None:
        return _prove(dominant, view)
    return None


def _behind(view: View) -> str:
    """One step ahead, agent-loop figures belong to the generation of the step before."""
    if view.mode == "one_step_off" and view.inside_source == "agent_loop":
        return "behind it, in the generation of the step before"
    return "behind it"


def _lower(at_most: Confidence, cause: Proof) -> Confidence:
    """Return how sure a verdict with a cause can be: no surer than the cause is proven."""
    return at_most if cause.inner_agrees and cause.at_most == "high" else "medium"


def _make_decision(
    view: View,
    rule: Rule,
    cause: Rule | None,
    proof: Proof,
    other_side: tuple[Evidence, ...],
    evidence: tuple[Evidence, ...],
    looks: Sequence[Advice],
    outer_words: str | None,
) -> Decision:
    estimate = proof.recoverable
    return Decision(
        rule.code,
        None if cause is None else cause.code,
        rate_confidence(proof, other_side),
        _sentence(rule, proof, outer_words),
        None if estimate is None else estimate.usual_s,
        evidence,
        _for_system(looks, view),
        None if estimate is None else (estimate.low_s, estimate.high_s),
        _formula(rule, estimate),
        _name_sources(view, [rule] if cause is None else [rule, cause], evidence),
    )


def _formula(rule: Rule, estimate: Recoverable | None) -> str:
    """Return how the estimate is made; where there is none, why."""
    if estimate is not None:
        return rule.recoverable
    if rule.recoverable == _NOT_ESTIMATED:
        return f"{_NOT_ESTIMATED}: what would be given back is not measured"
    return f"{_NOT_ESTIMATED}: what it takes is not reported (otherwise: {rule.recoverable})"


def _family_seconds(view: View, family: str) -> float:
    """Return the seconds a step that a family takes for itself: no more can be given back."""
    seconds_of = sum(view.seconds(name) for name in stages_of(family, view))
    if family == OUTSIDE:
        return seconds_of + sum(view.window.outside_s.values())
    return seconds_of


def _cap(proof: Proof, limit_s: float) -> Proof:
    if proof.recoverable is None:
        return proof
    return replace(proof, recoverable=proof.recoverable.capped(limit_s))


def _name_sources(view: View, rules: Sequence[Rule], evidence: Sequence[Evidence]) -> Sources:
    """Return who was heard, and which layers that could prove the rules are silent."""
    used = dict.fromkeys(part for row in evidence for part in row.source.split(", ") if part)
    could = dict.fromkeys(name for rule in rules for name in rule.sources)
    return Sources(tuple(used), tuple(name for name in could if name not in view.sources))


def _decide_balanced(view: View, standing: Standing) -> Decision:
    ranked = [(family, share) for family, share in standing.ranked() if share > 0]
    # What is validated and saved within the step takes its share too, under a limit of its own.
    inside = view.seconds(*stages_of(OUTSIDE, view)) / view.step_s if view.step_s else 0.0
    if inside > 0:
        ranked = sorted([*ranked, (OUTSIDE, inside)], key=lambda item: -item[1])
    rows = tuple(
        outer(
            f"share/{family}",
            share,
            "1",
            view.ledger_source,
            threshold(view, "outside.ratio" if family == OUTSIDE else "dominance.share"),
        )
        for family, share in ranked[:2]
    )
    proven = [_prove(family, view) for family, _ in ranked[:2]]
    rules = [rule for rule, _ in proven]
    looks = [_for_system((*proof.first, *rule.next), view)[:1] for rule, proof in proven]
    heard = (*rules, *(rules_of(WAIT) if view.separate_pools else ()))
    parts = [f"{FAMILY_LABELS[family]} {percent(share)}" for family, share in ranked[:3]]
    if view.separate_pools and view.wait_share > 0:
        parts.insert(0, f"{FAMILY_LABELS[WAIT]} {percent(view.wait_share)}")
    listed = " and ".join(", ".join(parts).rsplit(", ", 1))
    return Decision(
        BALANCED,
        None,
        # By shares alone, which are the outer measurement.
        "low",
        f"No side is the one to wait for: of each {seconds(view.step_s)} step, {listed}.",
        None,
        rows,
        tuple(chain.from_iterable(looks)),
        recoverable_formula=f"{_NOT_ESTIMATED}: no single side holds the loop up",
        sources=_name_sources(view, heard, rows),
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
    if proof.recoverable is not None:
        sentence += _estimate_words(proof.recoverable)
    return sentence


def _estimate_words(estimate: Recoverable) -> str:
    if estimate.usual_s < _LEAST_SAID_S:
        return ""
    return f" Fixing it would give back about {seconds(estimate.usual_s)} a step."


def _for_system(looks: Sequence[Advice], view: View) -> tuple[NextLook, ...]:
    """Return next looks that are not done yet, with the keys of the run's framework."""
    unfit = "shared" if view.separate_pools else "separate"
    system, version = view.system, view.run.system_version
    return tuple(
        NextLook(look.text, find_keys(look.knobs, system, version, view.mode))
        for look in looks
        if look.pools != unfit and look.unless not in view.sources
    )
