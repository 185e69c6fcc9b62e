"""staleness.*, mismatch.rollout_train and rollout.filtered: what training gets to see."""

from longpole_server.diagnosis.baseline import mean_known
from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.trends import fit_trend
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Evidence, Finding, Reference
from longpole_server.model.facts import StepFacts
from longpole_server.model.step import Severity

_DRIFT = "staleness.drift_versions"
_HELD = "staleness.bound_versions"
_MIN_STEPS = "trend.min_steps"
_MONOTONE = "trend.monotone_ratio"
_FILTERED = "rollout.filtered.ratio"
# In verl a version is a step; other bases cannot be read off versions.
_VERSIONS = "versions"
# A lag this near to its bound is held there.
_AT_BOUND = 0.95


def lag_of_samples(facts: StepFacts) -> float | None:
    """Return the largest lag of a step's samples: newest version seen less the oldest one used.

    Nobody says which version trains on them; it is at least the newest one that generated.
    """
    samples = facts.trajectories
    if samples is None:
        return None
    oldest = [version for version in samples.policy_versions_start if version is not None]
    newest = [version for version in samples.policy_versions_end if version is not None]
    return float(max([*newest, *oldest]) - min(oldest)) if oldest else None


def _largest_lag(view: View) -> tuple[float, str] | None:
    """Return the largest lag of the window, and who says so."""
    logged = [value for value in view.series("staleness_max") if value is not None]
    seen = [lag for look in view.sampled if (lag := lag_of_samples(look.facts)) is not None]
    if logged and (not seen or max(logged) >= max(seen)):
        return max(logged), "scalars"
    return (max(seen), "trajectories") if seen else None


def _ages(view: View) -> str:
    """Where samples age tells which side makes them old."""
    flight = view.scalar("off_policy/in_flight/mean")
    queue = view.scalar("off_policy/in_queue/mean")
    if flight is None or queue is None:
        return ""
    if flight >= queue:
        return f" They age in flight ({flight:.1f} against {queue:.1f} in the queue): generation."
    return f" They age in the queue ({queue:.1f} against {flight:.1f} in flight): the trainer."


def _find_drift(view: View) -> list[Finding]:
    series = view.series("staleness_mean")
    trend = fit_trend(series, view.limits[_MIN_STEPS])
    if (
        trend is not None
        and trend.rise >= view.limits[_DRIFT]
        and trend.monotone_ratio >= 0.5 + (view.limits[_MONOTONE] - 0.5) / 2
    ):
        row = inner(
            "staleness_mean", trend.last, "1", "scalars", Reference("baseline", trend.first)
        )
        summary = (
            f"Samples are {trend.last:.1f} versions old on average, {trend.first:.1f} at the "
            f"beginning of these steps.{_ages(view)}"
        )
        return [make_finding(view, "staleness.drift", "warning", summary, (row,))]
    return _find_held(view)


def _find_held(view: View) -> list[Finding]:
    bound = view.run.staleness_bound
    mean = mean_known(view.series("staleness_mean"))
    if bound is None or mean is None or view.run.staleness_basis not in (None, _VERSIONS):
        return []
    if bound < view.limits[_HELD] or mean < _AT_BOUND * bound:
        return []
    row = inner("staleness_mean", mean, "1", "scalars", Reference("threshold", bound))
    summary = (
        f"Samples are {mean:.1f} versions old on average: the bound of {bound:g} holds them, which "
        f"a slow rollout does as well as a slow trainer.{_ages(view)}"
    )
    return [make_finding(view, "staleness.drift", "warning", summary, (row,))]


def _find_exceeded(view: View) -> list[Finding]:
    bound = view.run.staleness_bound
    largest = None if bound is None else _largest_lag(view)
    if bound is None or largest is None:
        return []
    lag, source = largest
    if source == "trajectories" and view.run.staleness_basis not in (None, _VERSIONS):
        return []
    if lag <= bound:
        return []
    row = inner("staleness_max", lag, "1", source, Reference("threshold", bound))
    summary = f"Samples were {lag:g} versions old, the bound is {bound:g}: it does not hold."
    return [make_finding(view, "staleness.bound_exceeded", "warning", summary, (row,))]


def _find_mismatch(view: View) -> list[Finding]:
    checks: tuple[tuple[str, float | None, str, str, bool], ...] = (
        (
            "rollout_train_mismatch",
            view.metric("rollout_train_mismatch"),
            "nats",
            "mismatch.nats",
            True,
        ),
        (
            "training/rollout_probs_diff_mean",
            view.scalar("training/rollout_probs_diff_mean"),
            "1",
            "mismatch.probs",
            True,
        ),
        ("importance_ess", view.metric("importance_ess"), "1", "mismatch.ess", False),
    )
    rows: list[Evidence] = []
    for metric, value, unit, limit, is_upper in checks:
        if value is None:
            continue
        bad = value > view.limits[limit] if is_upper else value < view.limits[limit]
        if bad:
            rows.append(inner(metric, value, unit, "scalars", threshold(view, limit)))
    if not rows:
        return []
    worst = rows[0]
    summary = (
        f"Engine and trainer disagree about the same samples ({worst.metric} is "
        f"{worst.value:.3g}): look at stale prefix caches after weight syncs, precision, and "
        "sampling temperature."
    )
    return [make_finding(view, "mismatch.rollout_train", "warning", summary, tuple(rows))]


def filtered_ratio(view: View) -> tuple[float, str] | None:
    """Return the part of what was generated that no update sees, and who says so."""
    known = view.metric("filtered_ratio")
    if known is not None:
        return known, "scalars"
    # OpenRLHF writes percent.
    passed = view.scalar("dynamic_filtering_pass_rate")
    if passed is not None:
        return max(0.0, 1.0 - passed / 100.0), "scalars"
    kept = view.scalar("async/keep_rate")
    if kept is not None:
        return max(0.0, 1.0 - kept), "scalars"
    batches = view.scalar("train/num_gen_batches")
    if batches is None:
        batches = view.scalar("train/dynamic_sampling_num_gen_batches")
    if batches is not None and batches >= 1:
        return 1.0 - 1.0 / batches, "scalars"
    return _filtered_samples(view)


def _filtered_samples(view: View) -> tuple[float, str] | None:
    num_filtered, num_told = 0, 0
    for look in view.sampled:
        samples = look.facts.trajectories
        if samples is not None:
            num_filtered += samples.statuses.count("filtered")
            num_told += len(samples.statuses) - samples.statuses.count(None)
    return (num_filtered / num_told, "trajectories") if num_told else None


def _find_filtered(view: View) -> list[Finding]:
    known = filtered_ratio(view)
    if known is None or known[0] < view.limits[_FILTERED]:
        return []
    ratio, source = known
    severity: Severity = "warning" if ratio >= 0.5 else "info"
    row = inner("filtered_ratio", ratio, "1", source, threshold(view, _FILTERED))
    summary = (
        f"{percent(ratio)} of what is generated is discarded before any update: each step pays "
        f"for {1 / max(1e-9, 1 - ratio):.1f} times its samples."
    )
    return [make_finding(view, "rollout.filtered", severity, summary, (row,))]


DRIFT = FindingKind(
    "staleness.drift",
    "samples get older, or are held at their bound",
    "The mean lag rises by a version over eight steps or more, or stays at a bound of two or more. "
    "A lag at its bound decides nothing about which side is slow.",
    ("staleness_mean", "rl.staleness.bound", "off_policy/in_flight/mean"),
    _find_drift,
    (_DRIFT, _HELD, _MIN_STEPS, _MONOTONE),
)
EXCEEDED = FindingKind(
    "staleness.bound_exceeded",
    "samples are older than their bound allows",
    "The largest lag, as logged or by the samples' oldest policy version, is above the bound.",
    ("staleness_max", "trajectory policy versions", "rl.staleness.bound"),
    _find_exceeded,
)
MISMATCH = FindingKind(
    "mismatch.rollout_train",
    "engine and trainer disagree about the same samples",
    "Their log probabilities differ by 0.10 nats a token, their probabilities by 0.01, or "
    "correction weights leave half of the samples' worth.",
    ("rollout_train_mismatch", "training/rollout_probs_diff_mean", "importance_ess"),
    _find_mismatch,
    ("mismatch.nats", "mismatch.probs", "mismatch.ess"),
)
FILTERED = FindingKind(
    "rollout.filtered",
    "much of what is generated is discarded",
    "A fifth of the samples or more never reach an update.",
    ("filtered_ratio", "dynamic_filtering_pass_rate", "train/num_gen_batches", "sample status"),
    _find_filtered,
    (_FILTERED,),
)
