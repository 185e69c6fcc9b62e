"""reward: scoring as a stage of its own."""

from longpole_server.diagnosis.families import REWARD
from longpole_server.diagnosis.proof import Proof, Rule
from longpole_server.diagnosis.view import View
from longpole_server.model.diagnosis import NextLook


def _judge(view: View) -> Proof:
    return Proof(
        "scoring runs as a stage of its own, while all GPUs of the trainer wait",
        recoverable_s=view.seconds("reward"),
    )


RULE = Rule(
    code="reward",
    family=REWARD,
    title="the loop waits for rewards",
    proof="A separate reward stage dominates; requests, latency and timeouts where known.",
    recoverable="the whole stage, since scoring can overlap the rollout",
    reads=("timing_s/reward",),
    next=(
        NextLook("Score samples as they finish, inside the rollout."),
        NextLook(
            "Run more replicas of the reward service, or batch its requests.",
            ("reward.num_workers",),
        ),
        NextLook("Set timeouts on scoring."),
    ),
    judge=_judge,
)
