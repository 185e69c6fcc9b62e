"""async.*: which of two separate GPU pools waits for the other."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import WAIT
from longpole_server.diagnosis.proof import Proof, Rule, inner, outer, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import NextLook, Reference

_TRAINER_ROLES = frozenset({"trainer", "critic", "ref", "hybrid"})


def _idle_gpu_seconds(view: View, *, trainer: bool) -> float | None:
    """Return GPU-seconds without activity on one side, None when nobody measured them."""
    total: float | None = None
    for facts in view.facts:
        for window in facts.gpu_windows:
            activity = window.sm_active_ratio
            if activity is None or (window.role in _TRAINER_ROLES) != trainer:
                continue
            total = (total or 0.0) + window.gpu_count * window.seconds * (1 - activity)
    return total


def _judge_trainer_starved(view: View) -> Proof | None:
    wait = view.share(stages.TRAINER_WAIT)
    if wait < view.limits["async.trainer_wait_ratio"]:
        return None
    row = outer(
        "share/trainer_wait",
        wait,
        "1",
        view.ledger_source,
        threshold(view, "async.trainer_wait_ratio"),
    )
    because = f"the trainer waits for samples during {percent(wait)} of each step"
    trainer_s = _idle_gpu_seconds(view, trainer=True)
    rollout_s = _idle_gpu_seconds(view, trainer=False)
    if trainer_s is None or rollout_s is None:
        return Proof(because, (row,))
    if trainer_s <= rollout_s:
        return None
    idle = inner("gpu_idle_s/trainer", trainer_s, "s", "gpus", Reference("peer", rollout_s))
    return Proof(
        because + ", and its GPUs idle more than the rollout's",
        (row, idle),
        inner_agrees=True,
        recoverable_s=view.seconds(stages.TRAINER_WAIT),
    )


def _judge_rollout_starved(view: View) -> Proof | None:
    wait = view.share(stages.TRAINER_WAIT)
    if wait >= view.limits["async.trainer_busy_ratio"]:
        return None
    size, capacity = view.metric("buffer_size"), view.metric("buffer_capacity")
    paused = view.metric("rollout_paused_ratio")
    is_full = size is not None and capacity is not None and capacity > 0 and size >= capacity
    is_paused = paused is not None and paused >= view.limits["async.trainer_busy_ratio"]
    if not is_full and not is_paused:
        return None
    rows = [
        outer(
            "share/trainer_wait",
            wait,
            "1",
            view.ledger_source,
            threshold(view, "async.trainer_busy_ratio"),
        )
    ]
    if size is not None and capacity is not None:
        rows.append(inner("buffer_size", size, "samples", "scalars", Reference("peer", capacity)))
    if paused is not None:
        rows.append(inner("rollout_paused_ratio", paused, "1", "scalars"))
    return Proof(
        "the rollout is held back by a full buffer while the trainer never waits",
        tuple(rows),
        inner_agrees=True,
    )


TRAINER_STARVED = Rule(
    code="async.trainer_starved",
    family=WAIT,
    title="the trainer is starved of samples",
    proof="Separate pools; the trainer's exposed wait is 0.20 of the step or more, with more idle "
    "GPU-seconds there than on the rollout side.",
    recoverable="the trainer's exposed wait, when GPU activity proves it",
    reads=("trainer wait", "GPU activity by role"),
    thresholds=("async.trainer_wait_ratio",),
    next=(
        NextLook(
            "Give the rollout a larger part of the GPUs.", ("rollout.nnodes", "trainer.nnodes")
        ),
        NextLook("Look at what makes the rollout slow: the cause."),
    ),
    judge=_judge_trainer_starved,
)

ROLLOUT_STARVED = Rule(
    code="async.rollout_starved",
    family=WAIT,
    title="the rollout is held back by the trainer",
    proof="Separate pools; the rollout is paused or its buffer full, the trainer waits less than "
    "0.10 of the step.",
    recoverable="not estimated",
    reads=("trainer wait", "buffer size and capacity", "paused part"),
    thresholds=("async.trainer_busy_ratio",),
    next=(
        NextLook(
            "Give the trainer a larger part of the GPUs.", ("trainer.nnodes", "rollout.nnodes")
        ),
        NextLook("Look at the efficiency of the update."),
        NextLook("Allow more staleness.", ("async_training.staleness_threshold",)),
    ),
    judge=_judge_rollout_starved,
)
