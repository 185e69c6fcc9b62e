"""update.critic: the critic's update takes longer than the actor's.

Timers say so, and timers are the outer measurement: what happens inside the critic's update is
told by its MFU and by the GPUs.
"""

from longpole.conventions import stages
from longpole_server.diagnosis.families import UPDATE
from longpole_server.diagnosis.gpu_activity import is_idle, measure_activity
from longpole_server.diagnosis.proof import (
    Advice,
    Proof,
    Recoverable,
    Rule,
    inner,
    outer,
    threshold,
)
from longpole_server.diagnosis.view import CRITIC_MFU, View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Evidence, Reference

_IDLE = "gpu.idle_activity"


def _judge(view: View) -> Proof | None:
    critic_s, actor_s = view.seconds(stages.UPDATE_CRITIC), view.seconds(stages.UPDATE_ACTOR)
    if critic_s <= actor_s:
        return None
    because = f"the critic takes {seconds(critic_s)} of it, the actor {seconds(actor_s)}"
    source = view.ledger_source
    longer = outer("stage_s/update_critic", critic_s, "s", source, Reference("peer", actor_s))
    inside = [row for row in (_mfu_row(view), _activity_row(view)) if row is not None]
    for row in inside:
        if row.effect == "supports" and row.source == "scalars":
            because += f", at an MFU of {percent(row.value)}"
    return Proof(
        because,
        (longer, *inside),
        inner_agrees=any(row.effect == "supports" for row in inside),
        recoverable=Recoverable(0.0, critic_s - actor_s, critic_s),
    )


def _mfu_row(view: View) -> Evidence | None:
    """The critic computes less efficiently than the actor: that is why it takes longer."""
    known = [view.scalar(name) for name in CRITIC_MFU]
    critic = next((mfu for mfu in known if mfu is not None and 0 < mfu <= 1), None)
    if critic is None or view.mfu_actor is None:
        return None
    effect = "supports" if critic < view.mfu_actor else "contradicts"
    reference = Reference("peer", view.mfu_actor)
    return inner("perf/mfu/critic", critic, "1", "scalars", reference, effect)


def _activity_row(view: View) -> Evidence | None:
    """GPUs that work in the critic's update: its seconds are its own, and no wait for others."""
    activity = measure_activity(view.gpu_windows(stages.UPDATE_CRITIC))
    if activity is None:
        return None
    level = activity.tensor if activity.sm is None else activity.sm
    if level is None:
        return None
    effect = "contradicts" if is_idle(activity, view.limits) else "supports"
    return inner("gpu_active/update_critic", level, "1", "gpus", threshold(view, _IDLE), effect)


RULE = Rule(
    code="update.critic",
    family=UPDATE,
    title="the loop waits for the critic's update",
    proof="The update dominates and the critic takes longer than the actor. Low by timers alone; "
    "a lower MFU than the actor's, or GPUs that work meanwhile, agree.",
    recoverable="what the critic takes beyond the actor; from nothing to all of it, without a "
    "critic",
    reads=("timing_s/update_critic", "timing_s/update_actor", "perf/mfu/critic", "GPU activity"),
    thresholds=(_IDLE,),
    sources=("critic_mfu", "gpus"),
    next=(
        Advice("Use larger or token-based micro-batches for the critic.", ("critic.batch",)),
        Advice("Use an algorithm without a critic.", ("estimator",)),
    ),
    judge=_judge,
)
