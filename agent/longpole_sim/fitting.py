"""Which findings fit a scenario: whatever else is said of its runs is a false alarm."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from longpole_sim.scenario import Scenario

Fits = Callable[[Scenario], bool]


def _has_fault(*kinds: str) -> Fits:
    return lambda scenario: scenario.fault is not None and scenario.fault.kind in kinds


def _is_hot(scenario: Scenario) -> bool:
    return _has_fault("throttled")(scenario) or scenario.slow_replica_speed < 1.0


def _is_unshared(scenario: Scenario) -> bool:
    return not scenario.prefix_cache or scenario.groups_apart


def _drifts(*names: str) -> Fits:
    return lambda scenario: any(drift.name in names for drift in scenario.drifts)


def _is_old(scenario: Scenario) -> bool:
    return scenario.separate_pools and (scenario.lag > 1 or scenario.lag_per_step > 0)


# What each finding takes to be true, or nearly so. Findings that are not listed may come anywhere.
CONDITIONS: Mapping[str, Fits] = MappingProxyType(
    {
        "gpu.throttled": _is_hot,
        "straggler.gpu": _is_hot,
        "gpu.idle": _has_fault("idle"),
        "gpu.lost": _has_fault("lost"),
        "kv.leak": lambda scenario: scenario.kv_floor_per_step > 0,
        "kv.pressure": lambda scenario: (scenario.kv_fill or scenario.kv_tokens) is not None,
        "rollout.filtered": lambda scenario: scenario.filtered_ratio > 0,
        "group.routing": lambda scenario: scenario.groups_apart,
        "prefix_cache.cold": _is_unshared,
        "staleness.drift": _is_old,
        "staleness.bound_exceeded": _is_old,
        "mismatch.rollout_train": _drifts("rollout_corr/kl"),
        "stage.overlap": lambda scenario: scenario.overlap_ratio > 0,
        "mfu.impossible": lambda scenario: scenario.reported_mfu == "impossible",
        "mfu.unknown": lambda scenario: scenario.reported_mfu != "true",
        # Few samples that are left over cannot be balanced.
        "imbalance.dp": lambda scenario: scenario.dp_imbalance > 1.1 or scenario.filtered_ratio > 0,
        "imbalance.replica": lambda scenario: (
            scenario.slow_replica_speed < 1.0
            or scenario.crowded_replica != 1.0
            or _has_fault("throttled")(scenario)
        ),
        "health.stale_drop_ratio": lambda scenario: scenario.stale_drop_ratio > 0,
        "health.clip_fraction": _drifts("actor/pg_clipfrac"),
        "health.kl_ref": _drifts("actor/kl_loss"),
        "health.reward_mean": _drifts("critic/score/mean"),
    }
)


def fits(code: str, scenario: Scenario) -> bool:
    """Return whether a finding may be said of a scenario's runs."""
    condition = CONDITIONS.get(code)
    return condition is None or condition(scenario)
