"""reward: scoring as a stage of its own."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import REWARD
from longpole_server.diagnosis.gpu_activity import is_idle, measure_activity
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Evidence

_IDLE = "gpu.idle_activity"


def _judge(view: View) -> Proof:
    stage_s = view.seconds(stages.REWARD)
    slowest_s = _slowest_score_s(view)
    rows = [row for row in (_waiting_row(view), _score_row(view, slowest_s)) if row is not None]
    because = "scoring runs as a stage of its own"
    for row in rows:
        if row.source == "gpus":
            because += f", while the trainer's GPUs wait ({percent(row.value)} active)"
        else:
            because += f"; one sample's score takes {seconds(row.value)}"
    return Proof(
        because,
        tuple(rows),
        inner_agrees=bool(rows),
        recoverable=Recoverable.between(
            stage_s / 2 if slowest_s is None else stage_s - slowest_s, stage_s
        ),
    )


def _waiting_row(view: View) -> Evidence | None:
    windows = [window for window in view.gpu_windows(stages.REWARD) if window.role != "reward"]
    activity = measure_activity(windows)
    if activity is None or not is_idle(activity, view.limits):
        return None
    level = activity.sm if activity.sm is not None else activity.tensor or 0.0
    return inner("gpu_active/reward", level, "1", "gpus", threshold(view, _IDLE))


def _slowest_score_s(view: View) -> float | None:
    """Return the seconds of a step's slowest score, None when no sample tells its own."""
    longest = [
        max(known)
        for facts in view.facts
        if facts.trajectories is not None
        and (known := [value for value in facts.trajectories.score_s if value is not None])
    ]
    return sum(longest) / len(longest) if longest else None


def _score_row(view: View, slowest_s: float | None) -> Evidence | None:
    """Scores by sample, where a single one takes a good part of the stage."""
    stage_s = view.seconds(stages.REWARD)
    if slowest_s is None or slowest_s < view.limits["rollout.end.ratio"] * stage_s:
        return None
    return inner("reward/slowest_score_s", slowest_s, "s", "trajectories")


RULE = Rule(
    code="reward",
    family=REWARD,
    title="the loop waits for rewards",
    proof="A separate reward stage dominates; GPUs wait meanwhile, or a sample's score takes half "
    "of the stage; requests, latency and timeouts where known.",
    recoverable="at most the whole stage, since scoring can overlap the rollout; at least all but "
    "the slowest score, which may be the last one's (half of the stage where scores by sample are "
    "not known); the estimate lies midway",
    reads=("timing_s/reward", "GPU activity", "trajectory score_s"),
    thresholds=(_IDLE, "rollout.end.ratio"),
    sources=("gpus", "trajectories"),
    next=(
        Advice("Score samples as they finish, inside the rollout."),
        Advice(
            "Run more replicas of the reward service, or batch its requests.", ("reward.workers",)
        ),
        Advice("Set timeouts on scoring."),
    ),
    judge=_judge,
)
