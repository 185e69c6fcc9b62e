"""sync.weights and sync.sleep_wake: the boundary between training and serving."""

from longpole.conventions import stages
from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.families import SYNC
from longpole_server.diagnosis.proof import Proof, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Evidence, NextLook

_REACHABLE = "sync.reachable_s"
_IDLE = "sync.gpus_idle_ratio"


def _gpus_waiting(view: View, stage: str) -> Evidence | None:
    """Return that GPUs computed nothing during a sync, None when they did or nobody measured."""
    activity = mean_known(
        [
            window.tensor_active_ratio
            if window.tensor_active_ratio is not None
            else window.sm_active_ratio
            for window in view.gpu_windows(stage)
        ]
    )
    if activity is None or activity >= view.limits[_IDLE]:
        return None
    return inner(f"gpu_active/{stage}", activity, "1", "gpus", threshold(view, _IDLE))


def _judge_weights(view: View) -> Proof | None:
    weights_s = view.seconds(stages.UPDATE_WEIGHTS)
    if weights_s < view.seconds(stages.SLEEP_WAKE):
        return None
    waiting = _gpus_waiting(view, stages.UPDATE_WEIGHTS)
    reachable_s = view.limits[_REACHABLE]
    because = f"new weights take {seconds(weights_s)} to reach the rollout engines"
    if weights_s > reachable_s:
        because += f", where shared storage takes {seconds(reachable_s)} and NCCL less"
    if waiting is not None:
        because += f"; meanwhile GPUs are {percent(waiting.value)} active"
    return Proof(
        because,
        () if waiting is None else (waiting,),
        inner_agrees=waiting is not None,
        recoverable_s=max(0.0, weights_s - reachable_s),
    )


def _judge_sleep_wake(view: View) -> Proof:
    waiting = _gpus_waiting(view, stages.SLEEP_WAKE)
    return Proof(
        f"engines take {seconds(view.seconds(stages.SLEEP_WAKE))} to give GPU memory away and to "
        "take it back",
        () if waiting is None else (waiting,),
        inner_agrees=waiting is not None,
    )


WEIGHTS = Rule(
    code="sync.weights",
    family=SYNC,
    title="the loop waits for new weights to reach the rollout",
    proof="Phases where known; bytes over seconds against the link.",
    recoverable="what the sync takes beyond 10 s, the time over shared NVMe",
    reads=("timing_s/update_weights", "GPU activity during the sync"),
    thresholds=(_REACHABLE, _IDLE),
    next=(
        NextLook(
            "Choose a faster way: NCCL takes seconds, shared NVMe ten, an object store minutes.",
            ("actor_rollout_ref.rollout.checkpoint_engine.backend",),
        ),
        NextLook(
            "Send larger buckets.",
            ("actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes",),
        ),
        NextLook("Send changes only, send FP8, or overlap layers."),
        NextLook("Keep the process group between syncs."),
    ),
    judge=_judge_weights,
)

SLEEP_WAKE = Rule(
    code="sync.sleep_wake",
    family=SYNC,
    title="the loop waits for engines to sleep and to wake",
    proof="Sleep, wake and offload seconds exceed those of the weight sync.",
    recoverable="not estimated",
    reads=("sleep, wake and offload timers",),
    thresholds=(_IDLE,),
    next=(
        NextLook(
            "Choose a lighter sleep level, or keep the cache.",
            ("actor_rollout_ref.rollout.free_cache_engine",),
        ),
        NextLook(
            "Offload less.",
            (
                "actor_rollout_ref.actor.fsdp_config.param_offload",
                "actor_rollout_ref.actor.fsdp_config.optimizer_offload",
            ),
        ),
        NextLook("Give trainer and rollout GPUs of their own."),
    ),
    judge=_judge_sleep_wake,
)
