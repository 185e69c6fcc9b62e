"""kv.*, prefix_cache.cold and group.routing: what the engines' caches tell."""

import statistics

from longpole_server.diagnosis.finding_kind import FindingKind, make_finding
from longpole_server.diagnosis.proof import inner, threshold
from longpole_server.diagnosis.trends import fit_trend
from longpole_server.diagnosis.view import View
from longpole_server.diagnosis.wording import percent
from longpole_server.model.diagnosis import Finding, Reference

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
    at_rest = [
        look.engines.kv_idle_ratio if look.engines is not None else None for look in view.looks
    ]
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


def _group_size(view: View) -> float | None:
    """Return how many samples share a prompt, None when nobody says."""
    sizes: list[float] = []
    for facts in view.facts:
        samples = facts.trajectories
        if samples is not None and len(samples.group_ids):
            known = [group for group in samples.group_ids if group is not None]
            if known:
                sizes.append(len(known) / len(set(known)))
    return statistics.median(sizes) if sizes else None


def _find_cold(view: View) -> list[Finding]:
    engines, size = view.engines, _group_size(view)
    if engines is None or engines.prefix_hit_ratio is None or size is None or size < 2:
        return []
    if engines.prefill_ratio is not None and engines.prefill_ratio < view.limits[_PREFILL]:
        return []
    possible = 1 - 1 / size
    seen = engines.prefix_hit_ratio
    if seen >= view.limits[_COLD] * possible:
        return []
    row = inner("engines/prefix_hit_ratio", seen, "1", "engines", Reference("peer", possible))
    summary = (
        f"Prefix caches serve {percent(seen)} of the prompt tokens; with {size:.0f} samples a "
        f"prompt they could serve {percent(possible)}."
    )
    severity = "info" if engines.prefill_ratio is None else "warning"
    return [make_finding(view, "prefix_cache.cold", severity, summary, (row,))]


def _find_routing(view: View) -> list[Finding]:
    engines, size = view.engines, _group_size(view)
    spread = _replicas_per_group(view)
    if spread is None or size is None or spread < view.limits[_SPREAD]:
        return []
    prefill = engines.prefill_ratio if engines is not None else None
    if prefill is None or prefill < view.limits[_PREFILL]:
        return []
    expected = max(0.0, 1 - spread / size)
    rows = [inner("rollout/replicas_per_group", spread, "1", "trajectories", Reference("peer", 1))]
    seen = ""
    if engines is not None and engines.prefix_hit_ratio is not None:
        hit = engines.prefix_hit_ratio
        rows.append(
            inner("engines/prefix_hit_ratio", hit, "1", "engines", Reference("peer", expected))
        )
        seen = f", seen are {percent(hit)}"
    rows.append(inner("engines/prefill_ratio", prefill, "1", "engines", threshold(view, _PREFILL)))
    summary = (
        f"The {size:.0f} samples of a prompt are spread over {spread:.1f} replicas: their prompt "
        f"is computed as often, and a hit rate of {percent(expected)} is the best{seen}. One "
        f"replica a prompt makes {percent(1 - 1 / size)} possible."
    )
    return [make_finding(view, "group.routing", "warning", summary, tuple(rows))]


def _replicas_per_group(view: View) -> float | None:
    """Return over how many replicas a mean group is spread."""
    found: list[float] = []
    for facts in view.facts:
        samples = facts.trajectories
        if samples is None or not len(samples.group_ids):
            continue
        replicas: dict[str, set[str]] = {}
        for group, replica in zip(samples.group_ids, samples.replicas, strict=True):
            if group is not None and replica is not None:
                replicas.setdefault(group, set()).add(replica)
        if replicas:
            found.append(statistics.fmean(map(len, replicas.values())))
    return statistics.fmean(found) if found else None


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
    "The seen hit rate is under half of 1 - 1 / samples a prompt, where prefill matters.",
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
