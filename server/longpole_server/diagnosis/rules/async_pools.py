"""async.*: which of two separate GPU pools waits for the other."""

from dataclasses import dataclass, replace

from longpole_server.diagnosis.families import WAIT, rank_families
from longpole_server.diagnosis.gpu_activity import count_gpus, idle_gpu_seconds
from longpole_server.diagnosis.overlap import measure_overlap, rollout_idle_ratio
from longpole_server.diagnosis.proof import (
    Advice,
    Proof,
    Recoverable,
    Rule,
    inner,
    outer,
    threshold,
)
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent, seconds
from longpole_server.model.diagnosis import Evidence, Reference
from longpole_server.model.step import Confidence

_STARVED = "async.trainer_wait_ratio"
_BUSY = "async.trainer_busy_ratio"
_OVERLAP = "async.overlap_ratio"
_FULL = "async.buffer_full_ratio"
# The trainer's GPUs idle for this part of its wait at least, or it does not stand still.
_OF_WAIT = 0.5
# Who sees that the rollout does nothing, without being told that it was held back.
_SEEN_FROM_OUTSIDE = frozenset({"engines", "trajectories"})


def _wait_row(view: View, limit: str) -> Evidence:
    wait = view.wait_share
    return outer("share/trainer_wait", wait, "1", view.ledger_source, threshold(view, limit))


def _judge_serial(view: View) -> Proof | None:
    overlap = measure_overlap(view)
    if overlap is None or overlap.ratio >= view.limits[_OVERLAP]:
        return None
    shorter_s = min(overlap.train_s, overlap.rollout_s)
    if shorter_s < view.limits[_BUSY] * view.step_s:
        return None
    rows = (
        _wait_row(view, _STARVED),
        inner("async/overlap", overlap.ratio, "1", overlap.source, threshold(view, _OVERLAP)),
        inner("async/rollout_s", overlap.rollout_s, "s", overlap.source),
        inner("async/train_s", overlap.train_s, "s", view.ledger_source),
    )
    hidden_s = shorter_s * (1 - overlap.ratio)
    return Proof(
        f"of {seconds(overlap.rollout_s)} of rollout and {seconds(overlap.train_s)} of training a "
        f"step, only {percent(overlap.ratio)} of the shorter one run side by side",
        rows,
        inner_agrees=True,
        at_most=overlap.at_most,
        recoverable=Recoverable.around(hidden_s, low_s=hidden_s / 2),
    )


def _judge_trainer_starved(view: View) -> Proof | None:
    wait = view.wait_share
    if wait < view.limits[_STARVED]:
        return None
    compared = _compare_by_gpus(view) or _compare_by_parts(view, wait)
    if not _is_to_blame(view, wait, compared):
        return None
    because = f"the trainer waits for samples during {percent(wait)} of each step"
    rows = [_wait_row(view, _STARVED)]
    if compared is not None:
        rows.append(compared.row)
        because += compared.words
    agrees = compared is not None and compared.row.effect == "supports"
    return Proof(
        because,
        (*rows, *_age_rows(view)),
        inner_agrees=agrees,
        at_most="high" if compared is not None and compared.at_most == "high" else "medium",
        recoverable=_rebalance(view, view.wait_s),
    )


@dataclass(frozen=True, slots=True)
class _Compared:
    """Which side idles more.

    Attributes:
        row: The rollout's idleness beside the trainer's; its effect says which is larger.
        words: Ends the sentence, empty where the trainer's is not the larger one.
        at_most: Highest confidence of a starved trainer.
        clears: Whether a rollout that idles more is cleared by it. Parts of the step alone leave
            that open: pools differ in size, and engines do not see tools and scoring.
        denies: Whether the trainer itself does not stand idle while it waits.
    """

    row: Evidence
    words: str
    at_most: Confidence
    clears: bool = False
    denies: bool = False


def _compare_by_gpus(view: View) -> _Compared | None:
    trainer_s = idle_gpu_seconds(view, trainer=True)
    rollout_s = idle_gpu_seconds(view, trainer=False)
    if trainer_s is None or rollout_s is None:
        return None
    row = inner("gpu_idle_s/trainer", trainer_s, "s", "gpus", Reference("peer", rollout_s))
    if trainer_s <= rollout_s:
        count = count_gpus(view, trainer=True) or 0
        denies = trainer_s < _OF_WAIT * view.wait_s * count
        contradicting = replace(row, effect="contradicts")
        return _Compared(contradicting, "", "low", clears=True, denies=denies)
    # Two sides that take turns look alike, as long as nobody tells when samples ran.
    at_most = "high" if measure_overlap(view) is not None else "medium"
    return _Compared(row, ", and its GPUs idle more than the rollout's", at_most)


def _compare_by_parts(view: View, wait: float) -> _Compared | None:
    """Without GPUs to count, parts of the step stand for GPU-seconds."""
    idle = rollout_idle_ratio(view)
    if idle is None:
        return None
    part, source = idle
    row = inner("async/rollout_idle_ratio", part, "1", source, Reference("peer", wait))
    if part >= wait:
        contradicting = replace(row, effect="contradicts")
        return _Compared(contradicting, "", "low", clears=source not in _SEEN_FROM_OUTSIDE)
    return _Compared(row, f", while the rollout side is idle during {percent(part)}", "medium")


def _is_to_blame(view: View, wait: float, compared: _Compared | None) -> bool:
    """Tell whether the wait is what the loop waits for, by shares where the inside contradicts.

    A rollout that seems to idle more than the trainer leaves the wait to blame only where no
    family dominates and is clearly longer; one that does idle more, only where the wait dominates.
    """
    if compared is None or compared.row.effect == "supports":
        return True
    if compared.denies:
        return False
    standing = rank_families(view)
    margin = view.limits["dominance.margin"]
    if compared.clears:
        largest = max(standing.shares.values(), default=0.0)
        return wait >= view.limits["dominance.share"] and wait - largest >= margin
    share = standing.shares.get(standing.dominant or "", 0.0)
    return share <= wait + margin


def _rebalance(view: View, wait_s: float) -> Recoverable:
    """Estimate what moving GPUs to the rollout gives back: work scales with its GPUs at best.

    With T trainer and R rollout GPUs and a busy rollout, a step of s seconds with a wait of w
    becomes (T (s - w) + R s) / (T + R), which is w T / (T + R) less.
    """
    trainer, rollout = count_gpus(view, trainer=True), count_gpus(view, trainer=False)
    if trainer and rollout:
        usual_s = wait_s * trainer / (trainer + rollout)
        return Recoverable.around(usual_s, low_s=usual_s / 2, high_s=wait_s)
    return Recoverable.around(wait_s / 2, low_s=0.0, high_s=wait_s)


def _age_rows(view: View) -> tuple[Evidence, ...]:
    """Where samples age: in flight when generation is slow, in the queue when the trainer is."""
    flight = view.scalar("off_policy/in_flight/mean")
    queue = view.scalar("off_policy/in_queue/mean")
    if flight is None or queue is None:
        return ()
    effect = "supports" if flight >= queue else "contradicts"
    row = inner("staleness/in_flight", flight, "1", "scalars", Reference("peer", queue), effect)
    return (row,)


def _judge_rollout_starved(view: View) -> Proof | None:
    wait = view.wait_share
    if wait >= view.limits[_BUSY]:
        return None
    size, capacity = view.metric("buffer_size"), view.metric("buffer_capacity")
    is_full = (
        size is not None
        and capacity is not None
        and capacity > 0
        and size >= view.limits[_FULL] * capacity
    )
    idle = rollout_idle_ratio(view)
    is_paused = idle is not None and idle[0] >= view.limits[_BUSY]
    if not is_full and not is_paused:
        return None
    rows = [_wait_row(view, _BUSY)]
    reasons: list[str] = []
    if size is not None and capacity is not None and capacity > 0:
        effect = "supports" if is_full else "contradicts"
        rows.append(
            inner("buffer_size", size, "samples", "scalars", Reference("peer", capacity), effect)
        )
        if is_full:
            reasons.append("by a full buffer")
    if idle is not None:
        effect = "supports" if is_paused else "contradicts"
        rows.append(
            inner("async/rollout_idle_ratio", idle[0], "1", idle[1], threshold(view, _BUSY), effect)
        )
        if is_paused:
            reasons.append(f"during {percent(idle[0])} of the step")
    return Proof(
        f"the rollout is held back {' and '.join(reasons)}, while the trainer waits only "
        f"{percent(wait)} of it",
        tuple(rows),
        inner_agrees=True,
        # Engines stand idle too while their samples are in tools or being scored.
        at_most="high" if is_full or idle is None or idle[1] != "engines" else "medium",
        recoverable=_give_to_trainer(view, idle[0] if idle is not None else None),
    )


def _give_to_trainer(view: View, idle: float | None) -> Recoverable | None:
    """Estimate what moving the rollout's idle part to the trainer gives back.

    With T trainer and R rollout GPUs, of which a part i idles, a step of s seconds becomes
    s (T + R (1 - i)) / (T + R).
    """
    trainer, rollout = count_gpus(view, trainer=True), count_gpus(view, trainer=False)
    if idle is None:
        return None
    usual_s = view.step_s * idle / 2
    if trainer and rollout:
        usual_s = view.step_s * idle * rollout / (trainer + rollout)
    return Recoverable.around(usual_s, low_s=usual_s / 2, high_s=view.step_s * idle)


SERIAL = Rule(
    code="async.serial",
    family=WAIT,
    title="trainer and rollout take turns though the mode is asynchronous",
    proof="Separate pools; less than 0.1 of the shorter of rollout and training runs beside the "
    "other, and both take 0.10 of the step or more. By the samples' own times or the trainer's "
    "timers; GPUs that work while the trainer waits and rest while it trains make it medium, since "
    "they do not see tools and scoring. Idle engines prove nothing.",
    recoverable="the shorter of rollout and training, as far as it is not hidden; at least half "
    "of that",
    reads=(
        "trainer wait",
        "training stages",
        "samples",
        "timing_s/generate_async",
        "GPU activity by stage and role",
    ),
    thresholds=(_OVERLAP, _BUSY, "gpu.idle_activity", "gpu.busy_activity"),
    sources=("trajectories", "gpus"),
    next=(
        Advice(
            "Find what forces the order: how many updates one weight sync serves, how many samples "
            "may wait or be in flight.",
            ("async.trigger",),
        ),
        Advice(
            "Allow the rollout to run ahead: a bound of 0 makes every mode serial.",
            ("staleness.bound",),
        ),
        Advice("Look whether the rollout waits for the weight sync before it begins."),
    ),
    judge=_judge_serial,
)

TRAINER_STARVED = Rule(
    code="async.trainer_starved",
    family=WAIT,
    title="the trainer is starved of samples",
    proof="Separate pools; the trainer's exposed wait is 0.20 of the step or more, with more idle "
    "GPU-seconds there than on the rollout side. Low where nobody saw the rollout, and where it "
    "idles more though the wait dominates (0.40, 0.05 above the largest family). A lag at its "
    "bound decides nothing.",
    recoverable="wait x trainer GPUs / all GPUs, what moving GPUs to the rollout gives; between "
    "half of that and the whole wait; half of the wait where GPUs by side are not known",
    reads=("trainer wait", "GPU activity by role", "rollout pauses", "samples", "engine idle time"),
    thresholds=(
        _STARVED,
        "gpu.idle_activity",
        "gpu.busy_activity",
        "dominance.share",
        "dominance.margin",
    ),
    sources=("gpus", "pauses", "trajectories", "engines"),
    next=(
        Advice("Give the rollout a larger part of the GPUs.", ("pools",)),
        Advice("Look at what makes the rollout slow: the cause."),
    ),
    judge=_judge_trainer_starved,
)

ROLLOUT_STARVED = Rule(
    code="async.rollout_starved",
    family=WAIT,
    title="the rollout is held back by the trainer",
    proof="Separate pools; the rollout is paused, idle beyond the weight sync, or its buffer full, "
    "the trainer waits less than 0.10 of the step. Idle engines alone make it medium: their "
    "samples may be in tools. What the trainer does most is the cause.",
    recoverable="step x the rollout's idle part x rollout GPUs / all GPUs; between half of that "
    "and the whole idle part",
    reads=(
        "trainer wait",
        "buffer size and capacity",
        "paused part",
        "samples",
        "engine idle time",
    ),
    thresholds=(_BUSY, _FULL),
    sources=("buffer", "pauses", "trajectories", "engines"),
    next=(
        Advice("Give the trainer a larger part of the GPUs.", ("pools",)),
        Advice("Look at the efficiency of the update.", ("update.batch",)),
        Advice("Allow more staleness.", ("staleness.bound",)),
    ),
    judge=_judge_rollout_starved,
)
