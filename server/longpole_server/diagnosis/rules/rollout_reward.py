"""rollout.reward: the samples that finish last wait for their score."""

from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None or inside.score_of_end is None or inside.slowest_of_gen is None:
        return None
    if inside.score_of_end < view.limits["rollout.end.ratio"]:
        return None
    if inside.slowest_of_gen < view.limits["rollout.end.span_ratio"]:
        return None
    source = view.inside_source or ""
    return Proof(
        f"the samples that finish last spend {percent(inside.score_of_end)} of their time "
        "being scored",
        (
            inner(
                "rollout/score_of_end",
                inside.score_of_end,
                "1",
                source,
                threshold(view, "rollout.end.ratio"),
            ),
            inner(
                "rollout/slowest_of_gen",
                inside.slowest_of_gen,
                "1",
                source,
                threshold(view, "rollout.end.span_ratio"),
            ),
        ),
        inner_agrees=True,
        recoverable_s=inside.score_saving_s,
    )


RULE = Rule(
    code="rollout.reward",
    family=ROLLOUT,
    title="the rollout waits for scoring",
    proof="Scoring inside the rollout is at least half of the exposed end; scoring that overlaps "
    "others' decoding costs nothing.",
    recoverable="how much earlier the last sample would end without its scoring",
    reads=("timing_s/agent_loop/slowest/compute_score", "trajectory score_s"),
    thresholds=("rollout.end.ratio", "rollout.end.sample_ratio", "rollout.end.span_ratio"),
    next=(
        NextLook("Run more reward workers or replicas.", ("reward.num_workers",)),
        NextLook("Use a verifiable reward in place of a reward model."),
        NextLook("Set timeouts on scoring."),
    ),
    judge=_judge,
)
