"""How sure a verdict is: outer dominance, inner agreement, and a stable other side."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis.families import (
    LOGPROB,
    OUTSIDE,
    OVERHEAD,
    REWARD,
    ROLLOUT,
    SYNC,
    UPDATE,
    WAIT,
)
from longpole_server.diagnosis.gen_pace import mean_response_tokens
from longpole_server.diagnosis.proof import Proof
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import Evidence, Reference
from longpole_server.model.step import Confidence

_UPDATE_STAGES = (stages.UPDATE_ACTOR, stages.UPDATE_CRITIC)
_GEN_STAGES = (stages.GEN,)
# What must not have got slower at the same time, for a family to be the one to blame.
_OTHER_SIDE = {
    ROLLOUT: _UPDATE_STAGES,
    REWARD: (*_GEN_STAGES, *_UPDATE_STAGES),
    LOGPROB: _GEN_STAGES,
    UPDATE: _GEN_STAGES,
    SYNC: (*_GEN_STAGES, *_UPDATE_STAGES),
    OVERHEAD: (*_GEN_STAGES, *_UPDATE_STAGES),
    OUTSIDE: (*_GEN_STAGES, *_UPDATE_STAGES),
    WAIT: _UPDATE_STAGES,
}
# Fewer steps than this say nothing about a drift within the window.
_MIN_STEPS = 6
_ORDER: Mapping[Confidence, int] = {"low": 0, "medium": 1, "high": 2}


def rate_confidence(proof: Proof, other_side: Sequence[Evidence]) -> Confidence:
    """Return the confidence of a proven verdict.

    `low`: outer only. `medium`: the inner measurement agrees. `high`: the other side is stable
    too, or nothing contradicts that.
    """
    if not proof.inner_agrees:
        return "low"
    contradicted = any(row.effect == "contradicts" for row in other_side)
    rated: Confidence = "medium" if contradicted else "high"
    return rated if _ORDER[rated] <= _ORDER[proof.at_most] else proof.at_most


def allow_for_few_samples(proof: Proof, view: View) -> Proof:
    """Return a proof from inside the rollout, less sure where a step has only a few samples."""
    counts = [
        len(facts.trajectories.durations_s)
        for facts in view.facts
        if facts.trajectories is not None
    ]
    if view.inside_source != "trajectories" or not counts or proof.at_most != "high":
        return proof
    if statistics.median(counts) >= view.limits["rollout.few_samples"]:
        return proof
    return replace(proof, at_most="medium")


def look_at_other_side(family: str, view: View) -> tuple[Evidence, ...]:
    """Return whether the other side got slower: against the baseline, else within the window.

    Longer samples make both sides slower, so seconds a token count where tokens are known: a
    response token where gen alone is the other side.
    """
    names = [name for name in _OTHER_SIDE[family] if view.seconds(name) > 0]
    if not names:
        return ()
    baseline = view.baseline
    now_s = view.seconds(*names)
    if baseline is not None:
        before_s = sum(baseline.stage_s.get(name, 0.0) for name in names)
        now_tokens, before_tokens = _mean_tokens(view.window.judged), baseline.tokens
        if names == [stages.GEN]:
            responses = mean_response_tokens(view.window.judged)
            usual = mean_response_tokens(StepTable.of(baseline.steps))
            if responses and usual:
                now_tokens, before_tokens = responses, usual
        growth = _growth(now_s, before_s, now_tokens, before_tokens)
    else:
        half = len(view.window.judged) // 2
        if len(view.window.judged) < _MIN_STEPS:
            return ()
        first, second = view.window.judged[:half], view.window.judged[half:]
        before_s, now_s = _usual_seconds(first, names), _usual_seconds(second, names)
        growth = _growth(now_s, before_s, _mean_tokens(second), _mean_tokens(first))
    if growth is None:
        return ()
    is_stable = growth <= view.limits["stability.ratio"]
    metric = f"stage_s/{names[0]}" if len(names) == 1 else "stage_s/" + "+".join(names)
    return (
        Evidence(
            metric,
            now_s,
            "s",
            Reference("baseline", before_s),
            "supports" if is_stable else "contradicts",
            "other_side",
            view.ledger_source,
        ),
    )


def _growth(
    now_s: float, before_s: float, now_tokens: float | None, before_tokens: float | None
) -> float | None:
    if before_s <= 0:
        return None
    growth = now_s / before_s
    if now_tokens and before_tokens:
        growth = min(growth, growth * before_tokens / now_tokens)
    return growth


def _usual_seconds(steps: StepTable, names: Sequence[str]) -> float:
    return float(np.median(sum(steps.seconds_of(name) for name in names)))


def _mean_tokens(steps: StepTable) -> float | None:
    known = [tokens for tokens in steps.known("tokens_total") if tokens]
    return statistics.fmean(known) if known else None
