"""sync.weights and sync.sleep_wake: the boundary between training and serving."""

from longpole.conventions import stages
from longpole_server.diagnosis.families import SYNC
from longpole_server.diagnosis.gpu_activity import measure_activity
from longpole_server.diagnosis.proof import Advice, Proof, Recoverable, Rule, inner, threshold
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Evidence, Reference
from longpole_server.model.facts import SyncPhaseFacts

_REACHABLE = "sync.reachable_s"
_LINK = "sync.link_bytes_per_s"
_PHASES = "sync.phases_ratio"
_IDLE = "gpu.idle_activity"
_TRANSFER = "transfer"
_SLEEP_PHASES = frozenset({"release_kv", "resume_kv"})


def _gpus_waiting(view: View, stage: str) -> Evidence | None:
    """Return that GPUs computed nothing during a sync, None when they did or nobody measured."""
    activity = measure_activity(view.gpu_windows(stage))
    if activity is None:
        return None
    # Copies occupy multiprocessors, never tensor cores.
    level = activity.tensor if activity.tensor is not None else activity.sm
    if level is None or level >= view.limits[_IDLE]:
        return None
    return inner(f"gpu_active/{stage}", level, "1", "gpus", threshold(view, _IDLE))


def _judge_weights(view: View) -> Proof | None:
    weights_s = view.seconds(stages.UPDATE_WEIGHTS)
    if weights_s < view.seconds(stages.SLEEP_WAKE):
        return None
    phases = [phase for phase in view.sync_phases if phase.seconds > 0]
    because = f"new weights take {seconds(weights_s)} to reach the rollout engines"
    rows: list[Evidence] = []
    row = _phases_row(view, phases, weights_s)
    if row is not None:
        rows.append(row)
        largest = max(phases, key=lambda phase: phase.seconds)
        because += f", {seconds(largest.seconds)} of it in `{largest.phase}`"
    transfer = next((phase for phase in phases if phase.phase == _TRANSFER), None)
    rate = _rate_row(view, transfer, weights_s)
    if rate is not None:
        rows.append(rate)
        because += f", at {rate.value / 1e9:.2g} GB/s{_method(view)}"
    elif weights_s > view.limits[_REACHABLE]:
        because += f", where shared storage takes {seconds(view.limits[_REACHABLE])} and NCCL less"
    waiting = _gpus_waiting(view, stages.UPDATE_WEIGHTS)
    if waiting is not None:
        rows.append(waiting)
        because += f"; meanwhile GPUs are {percent(waiting.value)} active"
    agrees = waiting is not None or (row is not None and row.effect == "supports")
    return Proof(
        because, tuple(rows), inner_agrees=agrees, recoverable=_recoverable(view, weights_s)
    )


def _phases_row(view: View, phases: list[SyncPhaseFacts], weights_s: float) -> Evidence | None:
    if not phases:
        return None
    covered_s = sum(phase.seconds for phase in phases)
    enough = covered_s >= view.limits[_PHASES] * weights_s
    return inner(
        "sync/phases_s",
        covered_s,
        "s",
        "sync_phases",
        Reference("peer", weights_s),
        "supports" if enough else "contradicts",
    )


def _rate_row(
    view: View,
    transfer: SyncPhaseFacts | None,
    weights_s: float,
) -> Evidence | None:
    """Bytes over the seconds of their transfer against what a link carries."""
    known = [p.transferred_bytes for p in view.sync_phases if p.transferred_bytes]
    if not known:
        return None
    spent_s = transfer.seconds if transfer is not None else weights_s
    rate = max(known) / spent_s
    return inner(
        "sync/bytes_per_s",
        rate,
        "bytes/s",
        "sync_phases",
        threshold(view, _LINK),
        "supports" if rate < view.limits[_LINK] else "contradicts",
    )


def _method(view: View) -> str:
    methods = [phase.method for phase in view.sync_phases if phase.method]
    return f" over {methods[0]}" if methods else ""


def _recoverable(view: View, weights_s: float) -> Recoverable | None:
    """Down to what the bytes need on a link, else to what shared storage takes.

    None when the bytes are not known and the sync is faster than shared storage.
    """
    known = [p.transferred_bytes for p in view.sync_phases if p.transferred_bytes]
    reachable_s = max(known) / view.limits[_LINK] if known else view.limits[_REACHABLE]
    if not known and weights_s <= reachable_s:
        return None
    usual_s = weights_s - reachable_s
    return Recoverable.around(usual_s, usual_s / 2, weights_s - min(reachable_s, 1.0))


def _judge_sleep_wake(view: View) -> Proof:
    spent_s = view.seconds(stages.SLEEP_WAKE)
    rows: list[Evidence] = []
    phases_s = sum(p.seconds for p in view.sync_phases if p.phase in _SLEEP_PHASES)
    if phases_s >= view.limits[_PHASES] * spent_s:
        rows.append(
            inner("sync/sleep_wake_s", phases_s, "s", "sync_phases", Reference("peer", spent_s))
        )
    waiting = _gpus_waiting(view, stages.SLEEP_WAKE)
    because = f"engines take {seconds(spent_s)} to give GPU memory away and to take it back"
    if waiting is not None:
        rows.append(waiting)
        because += f"; meanwhile GPUs are {percent(waiting.value)} active"
    return Proof(
        because,
        tuple(rows),
        inner_agrees=bool(rows),
        recoverable=Recoverable(0.0, spent_s / 2, spent_s),
    )


WEIGHTS = Rule(
    code="sync.weights",
    family=SYNC,
    title="the loop waits for new weights to reach the rollout",
    proof="Phases where known; bytes over seconds against the link; GPUs that wait meanwhile.",
    recoverable="what the sync takes beyond its bytes over a link of 10 GB/s, or beyond 10 s where "
    "bytes are not known; between half of that and nearly all. Not estimated for a sync under 10 s "
    "of unknown bytes",
    reads=(
        "timing_s/update_weights",
        "sync phases, their bytes and method",
        "GPU activity during the sync",
    ),
    thresholds=(_REACHABLE, _LINK, _PHASES, _IDLE),
    sources=("sync_phases", "gpus"),
    next=(
        Advice(
            "Choose a faster way: NCCL takes seconds, shared NVMe ten, an object store minutes.",
            ("sync.method",),
        ),
        Advice("Send larger buckets.", ("sync.bucket",)),
        Advice("Send changes only, send FP8, or overlap layers.", ("sync.smaller",)),
        Advice("Keep the process group between syncs."),
        Advice("Sync less often.", ("sync.seldom",), pools="separate"),
    ),
    judge=_judge_weights,
)

SLEEP_WAKE = Rule(
    code="sync.sleep_wake",
    family=SYNC,
    title="the loop waits for engines to sleep and to wake",
    proof="Sleep, wake and offload seconds exceed those of the weight sync; phases or idle GPUs "
    "agree.",
    recoverable="half of it, for a lighter sleep level; all of it with GPUs of their own",
    reads=("sleep, wake and offload timers", "sync phases", "GPU activity"),
    thresholds=(_PHASES, _IDLE),
    sources=("sync_phases", "gpus"),
    next=(
        Advice("Choose a lighter sleep level, or keep the cache.", ("sleep",)),
        Advice("Offload less.", ("update.offload",)),
        Advice("Give trainer and rollout GPUs of their own.", ("async.mode",), pools="shared"),
    ),
    judge=_judge_sleep_wake,
)
