"""health.*: metrics with a healthy band, and what leaving it means."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from longpole.conventions import stages
from longpole_server.diagnosis.engines import running_requests, tokens_per_second
from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.gpu_activity import TRAINER_ROLES, measure_activity
from longpole_server.diagnosis.proof import inner
from longpole_server.diagnosis.rules.update_mfu import limits_of_mfu
from longpole_server.diagnosis.stale_drops import measure_stale_drops
from longpole_server.diagnosis.trends import fit_trend
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Comparison, Finding, Reference
from longpole_server.model.step import Severity

_KL_BASIS_KEYS = ("rl.kl.basis", "kl.basis", "kl_basis")
_MIN_STEPS = "trend.min_steps"
_JUMP = "health.jump_deviations"
_LENGTH = "health.length_factor"
_BUSY = "health.rollout_busy"
_MONOTONE = "trend.monotone_ratio"
_FALL = "finding.change_ratio"
_DEVIATION_OF_MAD = 1.4826
# A reward that moved by less than this part of its own size has not jumped.
_LEAST_JUMP = 0.1


@dataclass(frozen=True, slots=True)
class _Reading:
    """A metric outside of its band."""

    value: float
    unit: str
    limit: float
    summary: str
    severity: Severity = "warning"
    source: str = "scalars"
    compared: Comparison = "threshold"


def _finding(view: View, metric: str, reading: _Reading | None) -> list[Finding]:
    if reading is None:
        return []
    reference = Reference(reading.compared, reading.limit)
    row = inner(metric, reading.value, reading.unit, reading.source, reference)
    return [make_finding(view, f"health.{metric}", reading.severity, reading.summary, (row,))]


def _clip_fraction(view: View) -> list[Finding]:
    value = view.metric("clip_fraction")
    limit = view.limits["health.clip_fraction"]
    if value is None or value <= limit:
        return []
    summary = f"{percent(value)} of the tokens are clipped: updates are too aggressive."
    return _finding(view, "clip_fraction", _Reading(value, "1", limit, summary))


def _kl_ref(view: View) -> list[Finding]:
    """KL to the reference a sequence; a mean over tokens is multiplied by the length first."""
    value = view.metric("kl_ref")
    if value is None:
        return []
    basis = next(
        (view.run.config[key] for key in _KL_BASIS_KEYS if key in view.run.config), "token"
    )
    note = ""
    if basis != "sequence":
        length = view.metric("response_length_mean")
        if length is None:
            return []
        note = f" ({value:.3g} a token x {length:.0f} tokens of a mean response)"
        value *= length
    limit = view.limits["health.kl_ref"]
    if value <= limit:
        return []
    summary = (
        f"KL to the reference is {value:.0f} nats a sequence{note}: the policy drifts too fast."
    )
    return _finding(view, "kl_ref", _Reading(value, "nats", limit, summary))


def _truncated_ratio(view: View) -> list[Finding]:
    limit = view.limits["health.truncated_ratio"]
    known = view.truncated_ratio
    value = known if known is not None else view.metric("truncated_ratio")
    if value is None or value < limit:
        return []
    summary = f"{percent(value)} of the samples end at the length cap."
    severity: Severity = "warning"
    if known is None:
        severity = "info"
        summary = (
            f"{percent(value)} of the samples are as long as the longest of their batch, which may "
            "be the cap; the cap is not known."
        )
    return _finding(view, "truncated_ratio", _Reading(value, "1", limit, summary, severity))


def _mfu_actor(view: View) -> list[Finding]:
    low, healthy = limits_of_mfu(view)
    value = view.mfu_actor
    if value is None or value >= low:
        return []
    summary = f"The update's MFU is {percent(value)}, healthy is {percent(healthy)}."
    return _finding(view, "mfu_actor", _Reading(value, "1", low, summary))


def _stale_drop_ratio(view: View) -> list[Finding]:
    known = measure_stale_drops(view)
    limit = view.limits["health.stale_drop_ratio"]
    if known is None or known[0] <= limit:
        return []
    value, source = known
    summary = f"{percent(value)} of the samples are dropped because they are too old."
    return _finding(view, "stale_drop_ratio", _Reading(value, "1", limit, summary, source=source))


def _rollout_busy(view: View) -> list[Finding]:
    """Running over the most that run, else SM activity; NVML's utilisation says nothing here."""
    limit = view.limits[_BUSY]
    engines = view.engines
    if engines is not None and engines.fill_ratio is not None:
        value, source, what = engines.fill_ratio, "engines", "of the engines' slots are taken"
    else:
        roles = {"rollout"} if view.separate_pools else {"rollout", *TRAINER_ROLES}
        windows = [w for w in view.gpu_windows(stages.GEN) if w.role in roles]
        activity = measure_activity(windows)
        if activity is None or activity.sm is None:
            return []
        value, source, what = activity.sm, "gpus", "of their multiprocessors are active"
    if value >= limit:
        return []
    summary = f"During gen only {percent(value)} {what}: usual is {percent(limit)} and more."
    return _finding(view, "rollout_busy", _Reading(value, "1", limit, summary, "info", source))


def _reward_mean(view: View) -> list[Finding]:
    """A jump or collapse against the reward's own course."""
    jump = _find_jump(view.series("reward_mean"), view)
    if jump is None:
        return []
    before, now = jump
    direction = "jumps" if now > before else "collapses"
    hint = "is it real, or is the reward hacked?" if now > before else "did training collapse?"
    summary = f"The mean reward {direction} from {before:.3g} to {now:.3g}: {hint}"
    reading = _Reading(now, "1", before, summary, compared="baseline")
    return _finding(view, "reward_mean", reading)


def _find_jump(series: Sequence[float | None], view: View) -> tuple[float, float] | None:
    """Return (before, now) when the last quarter lies far off what the line before promises."""
    known = [value for value in series if value is not None]
    count = max(2, len(known) // 4)
    past, recent = known[:-count], known[-count:]
    # Of fewer points the scatter is not known well enough to call anything no scatter.
    if len(past) < view.limits[_MIN_STEPS]:
        return None
    trend = fit_trend(past, 3)
    if trend is None:
        return None
    slope = trend.rise / (len(past) - 1)
    middle = statistics.median(past)
    half = (len(past) - 1) / 2
    rests = [value - middle - slope * (at - half) for at, value in enumerate(past)]
    spread = _DEVIATION_OF_MAD * statistics.median(map(abs, rests))
    ahead = half + (count + 1) / 2
    spread *= _widening(len(past), count, ahead)
    promised = middle + slope * ahead
    now = statistics.median(recent)
    off = abs(now - promised)
    least = _LEAST_JUMP * max(abs(middle), abs(now))
    return (middle, now) if off > max(view.limits[_JUMP] * spread, least) else None


def _widening(num_past: int, num_recent: int, ahead: float) -> float:
    """Return how many times a single point's scatter a line's promise may be off, at least once.

    The usual error of a prediction: of the recent mean, of the line's level and of its slope,
    `ahead` steps from its middle; and two of the points went into the line.
    """
    squares = num_past * (num_past**2 - 1) / 12
    of_prediction = 1 / num_recent + 1 / num_past + ahead**2 / squares
    return max(1.0, math.sqrt(of_prediction)) * num_past / (num_past - 2)


def _response_length(view: View) -> list[Finding]:
    """Responses collapse to near nothing, or explode, within the window."""
    trend = fit_trend(view.series("response_length_mean"), view.limits[_MIN_STEPS])
    if trend is None or trend.first <= 0:
        return []
    factor = view.limits[_LENGTH]
    ratio = trend.last / trend.first
    if 1 / factor < ratio < factor:
        return []
    what = "explode" if ratio > 1 else "collapse"
    summary = f"Responses {what} from {trend.first:.0f} to {trend.last:.0f} tokens."
    reading = _Reading(trend.last, "tokens", trend.first, summary, compared="baseline")
    return _finding(view, "response_length_mean", reading)


def _rollout_throughput(view: View) -> list[Finding]:
    """A falling rate that longer samples, fewer requests or truncation do not explain."""
    rates = view.series("rollout_throughput")
    source = "scalars"
    if all(rate is None for rate in rates):
        rates = [tokens_per_second(facts.engine_windows) for facts in view.facts]
        source = "engines"
    trend = fit_trend(rates, view.limits[_MIN_STEPS])
    if trend is None or trend.last <= 0 or trend.rise >= 0:
        return []
    if trend.first / trend.last < view.limits[_FALL]:
        return []
    if trend.monotone_ratio > 1 - view.limits[_MONOTONE]:
        return []
    if _is_explained(view, trend.first / trend.last):
        return []
    summary = (
        f"The rollout's rate falls from {trend.first:.0f} to {trend.last:.0f} tokens/s, and "
        "neither longer samples nor fewer requests explain it: KV blocks may leak."
    )
    reading = _Reading(trend.last, "tokens/s", trend.first, summary, "warning", source, "baseline")
    return _finding(view, "rollout_throughput", reading)


def _is_explained(view: View, fall: float) -> bool:
    """Tell whether length or concurrency changed by most of the fall."""
    needed = 1 + 0.7 * (fall - 1)
    length = fit_trend(view.series("response_length_mean"), view.limits[_MIN_STEPS])
    if length is not None and length.first > 0 and length.last / length.first >= needed:
        return True
    running = [running_requests(facts.engine_windows) for facts in view.facts]
    load = fit_trend(running, view.limits[_MIN_STEPS])
    return load is not None and load.last > 0 and load.first / load.last >= needed


HEALTH_KINDS: tuple[FindingKind, ...] = (
    FindingKind(
        "health.clip_fraction",
        "updates are too aggressive",
        "More than half of the tokens are clipped. 0 is normal with one on-policy update.",
        ("clip_fraction",),
        _clip_fraction,
        ("health.clip_fraction",),
    ),
    FindingKind(
        "health.kl_ref",
        "the policy drifts from its reference",
        "KL a sequence is above 50 nats; a mean over tokens is multiplied by the response length.",
        ("kl_ref", "response_length_mean"),
        _kl_ref,
        ("health.kl_ref",),
    ),
    FindingKind(
        "health.truncated_ratio",
        "many answers end unfinished",
        "A quarter of the samples or more end at the length cap.",
        ("truncated_ratio", "trajectory status"),
        _truncated_ratio,
        ("health.truncated_ratio",),
    ),
    FindingKind(
        "health.mfu_actor",
        "the update's MFU is low",
        "Below 0.20 for dense models, 0.10 for mixtures of experts.",
        ("mfu_actor",),
        _mfu_actor,
        ("update.mfu.low_dense", "update.mfu.low_moe"),
    ),
    FindingKind(
        "health.stale_drop_ratio",
        "many samples are too old to be used",
        "More than a fifth are dropped.",
        ("stale_drop_ratio", "fully_async/count/dropped_stale_samples", "sample status"),
        _stale_drop_ratio,
        ("health.stale_drop_ratio",),
    ),
    FindingKind(
        "health.rollout_busy",
        "the rollout's GPUs are half empty",
        "Running requests over the most that run, else SM activity, are below 0.50 during gen.",
        ("engine running requests", "SM activity"),
        _rollout_busy,
        (_BUSY,),
    ),
    FindingKind(
        "health.reward_mean",
        "the reward jumps or collapses",
        "The last quarter of the window lies six robust deviations off the course before, which "
        "eight steps or more tell.",
        ("reward_mean",),
        _reward_mean,
        (_JUMP, _MIN_STEPS),
    ),
    FindingKind(
        "health.response_length_mean",
        "responses collapse or explode",
        "Three times shorter or longer than at the beginning of the window.",
        ("response_length_mean",),
        _response_length,
        (_LENGTH, _MIN_STEPS),
    ),
    FindingKind(
        "health.rollout_throughput",
        "the rollout's rate keeps falling",
        "It falls by a quarter over the window and length, concurrency or truncation do not "
        "explain it.",
        ("rollout_throughput", "engine tokens", "response_length_mean"),
        _rollout_throughput,
        (_FALL, _MONOTONE, _MIN_STEPS),
    ),
)
