"""rollout.reward: the samples that finish last wait for their score."""

from longpole_server.diagnosis.exposed_end import (
    END_FORMULA,
    END_THRESHOLDS,
    estimate_end,
    prove_end,
)
from longpole_server.diagnosis.families import ROLLOUT
from longpole_server.diagnosis.proof import Advice, Proof, Rule
from longpole_server.diagnosis.view import View


def _judge(view: View) -> Proof | None:
    inside = view.inside
    if inside is None:
        return None
    return prove_end(
        view,
        "rollout/score_of_end",
        inside.score_of_end,
        estimate_end(
            inside.score_saving_s, inside.half_score_saving_s, inside.usual_score_saving_s
        ),
        "being scored",
    )


RULE = Rule(
    code="rollout.reward",
    family=ROLLOUT,
    title="the rollout waits for scoring",
    proof="Scoring inside the rollout is at least half of the exposed end; scoring that overlaps "
    "others' decoding costs nothing.",
    recoverable=END_FORMULA,
    reads=("timing_s/agent_loop/slowest/compute_score", "trajectory score_s"),
    thresholds=END_THRESHOLDS,
    sources=("trajectories", "agent_loop"),
    next=(
        Advice("Run more reward workers or replicas.", ("reward.workers",)),
        Advice("Use a verifiable reward in place of a reward model."),
        Advice("Set timeouts on scoring."),
    ),
    judge=_judge,
)
