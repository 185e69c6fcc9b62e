"""kv.*, prefix_cache.cold and group.routing: what the engines' caches tell."""

import statistics
from dataclasses import replace

from longpole.conventions import stages
from longpole_server.analysis.longtail_waste import count_rollout_gpus
from longpole_server.analysis.peaks import find_peak
from longpole_server.analysis.routing import (
    GroupRouting,
    estimate_prefill_s,
    measure_group_routing,
)
from longpole_server.diagnosis.engines import kv_usage_at_rest
from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.trends import fit_trend
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Finding, Reference
from longpole_server.model.facts import StepFacts, TrajectoryFacts

_PRESSURE = "kv.pressure.ratio"
_LEAK = "kv.leak.rise_ratio"
_MIN_STEPS = "trend.min_steps"
_MONOTONE = "trend.monotone_ratio"
_COLD = "prefix_cache.cold_ratio"
_PREFILL = "group.prefill_ratio"
_SPREAD = "group.spread"


def _find_pressure(view: View) -> list[Finding]:
    engines = view.engines
    if engines is None or engines.kv_max_ratio is None:
        return []
    recomputed = view.inside.recomputed_ratio if view.inside is not None else None
    is_preempting = bool(engines.preemptions) or (
        recomputed is not None and recomputed >= view.limits["rollout.preemption.work_ratio"]
    )
    if engines.kv_max_ratio < view.limits[_PRESSURE] or is_preempting:
        return []
    row = inner(
        "engines/kv_usage_max", engines.kv_max_ratio, "1", "engines", threshold(view, _PRESSURE)
    )
    summary = (
        f"The KV cache is {percent(engines.kv_max_ratio)} full and nothing is preempted: the "
        "engines are well packed, with no room for longer samples."
    )
    return [make_finding(view, "kv.pressure", "info", summary, (row,))]


def _find_leak(view: View) -> list[Finding]:
    """Only what is still taken at rest counts: a cache in use grows with its samples."""
    at_rest = [kv_usage_at_rest(facts.engine_windows) for facts in view.facts]
    trend = fit_trend(at_rest, view.limits[_MIN_STEPS])
    if trend is None or trend.rise < view.limits[_LEAK]:
        return []
    if trend.monotone_ratio < view.limits[_MONOTONE]:
        return []
    row = inner(
        "engines/kv_usage_at_rest", trend.last, "1", "engines", Reference("baseline", trend.first)
    )
    summary = (
        f"With nothing running, {percent(trend.last)} of the KV cache are still taken, "
        f"{percent(trend.first)} at the beginning of these steps: blocks may leak. A restart of "
        "the engines that resets it would confirm it."
    )
    return [make_finding(view, "kv.leak", "warning", summary, (row,))]


def _routing(view: View) -> GroupRouting | None:
    """Return how groups are routed in the newest step with samples, None when nobody says.

    Routing is a setting: it does not change by step.
    """
    for facts in reversed(view.facts):
        if facts.trajectories is not None:
            return _measure(view, facts, facts.trajectories)
    return None


def _measure(view: View, facts: StepFacts, samples: TrajectoryFacts) -> GroupRouting | None:
    windows = facts.engine_windows
    known = [w.prefill_ratio for w in windows if w.prefill_ratio is not None]
    if known:
        return measure_group_routing(samples, windows, statistics.fmean(known))
    routing = measure_group_routing(samples, windows)
    gen = facts.step.stage(stages.GEN) or facts.step.stage(stages.TRAINER_WAIT)
    if routing is None or gen is None or gen.inclusive_s <= 0:
        return routing
    prefill_s = estimate_prefill_s(
        view.run.model_config,
        samples,
        routing.expected_hit_ratio,
        count_rollout_gpus(view.run, facts, view.mode).count,
        find_peak(view.run.gpu_model),
    )
    if prefill_s is None:
        return routing
    return replace(routing, prefill_ratio=min(1.0, prefill_s / gen.inclusive_s))


def _find_cold(view: View) -> list[Finding]:
    """Groups or turns make hits possible, and the caches do not have them."""
    if view.engines is None or view.engines.prefix_hit_ratio is None:
        return []
    routing = _routing(view)
    if routing is None or routing.seen_hit_ratio is None:
        return []
    seen, possible = routing.seen_hit_ratio, routing.expected_hit_ratio
    if seen >= view.limits[_COLD] * possible:
        return []
    prefill = routing.prefill_ratio
    if prefill is not None and prefill < view.limits[_PREFILL]:
        return []
    row = inner("engines/prefix_hit_ratio", seen, "1", "engines", Reference("peer", possible))
    summary = (
        f"Prefix caches serve {percent(seen)} of the prompt tokens; as the groups are routed they "
        f"could serve {percent(possible)}."
    )
    severity = "info" if prefill is None else "warning"
    return [make_finding(view, "prefix_cache.cold", severity, summary, (row,))]


def _find_routing(view: View) -> list[Finding]:
    routing = _routing(view)
    if routing is None or routing.mean_replicas < view.limits[_SPREAD]:
        return []
    prefill, seen = routing.prefill_ratio, routing.seen_hit_ratio
    if prefill is None or prefill < view.limits[_PREFILL]:
        return []
    spread, expected = routing.mean_replicas, routing.expected_hit_ratio
    rows = [
        inner("rollout/replicas_per_group", spread, "1", "trajectories", Reference("peer", 1.0)),
        inner("rollout/prefill_ratio", prefill, "1", "trajectories", threshold(view, _PREFILL)),
    ]
    if seen is not None:
        reference = Reference("peer", expected)
        rows.append(inner("engines/prefix_hit_ratio", seen, "1", "engines", reference))
    size = routing.num_samples / routing.num_groups
    gain = routing.recoverable_ratio
    summary = (
        f"The {size:.0f} samples of a prompt are spread over {spread:.1f} replicas, each of which "
        f"computes it anew: caches can serve {percent(expected)} of the prompts"
        + ("" if seen is None else f" (seen: {percent(seen)})")
        + f", with one replica a prompt {percent(routing.best_hit_ratio)}"
        + ("." if gain is None else f", which would give back {percent(gain)} of gen.")
    )
    return [make_finding(view, "group.routing", "warning", summary, tuple(rows))]


PRESSURE = FindingKind(
    "kv.pressure",
    "the KV cache is full without preemption",
    "The fullest replica's cache is 0.95 full and nothing is preempted: a well-packed engine.",
    ("KV cache usage", "preemptions"),
    _find_pressure,
    (_PRESSURE,),
)
LEAK = FindingKind(
    "kv.leak",
    "KV blocks may leak",
    "What is taken of the cache while nothing runs and nothing waits rises over eight steps or "
    "more, four of five pairs of steps, by 0.02 of the cache. A hint, no proof.",
    ("KV cache usage at rest",),
    _find_leak,
    (_LEAK, _MIN_STEPS, _MONOTONE),
)
COLD = FindingKind(
    "prefix_cache.cold",
    "prefix caches serve less than they could",
    "The seen hit rate is under half of what the routing of groups makes possible, where prefill "
    "matters.",
    ("prefix cache hits and queries", "trajectory groups"),
    _find_cold,
    (_COLD, _PREFILL),
)
ROUTING = FindingKind(
    "group.routing",
    "samples of one prompt are spread over replicas",
    "A mean group is spread over 1.5 replicas or more and prefill is 0.10 of the work or more: the "
    "expected hit rate is 1 - replicas / samples.",
    ("trajectory groups and replicas", "prefix cache hits", "prefill time"),
    _find_routing,
    (_SPREAD, _PREFILL),
)
