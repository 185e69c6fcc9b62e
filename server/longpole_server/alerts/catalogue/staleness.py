"""Rules about the age of the policy that made the samples."""

from longpole_server.alerts.detectors.staleness import BoundExceeded, StaleDrops, StalenessDrift
from longpole_server.alerts.rule import Rule

STALENESS_RULES: tuple[Rule, ...] = (
    Rule(
        "staleness.drift",
        "Staleness drifts",
        "trend",
        "warning",
        StalenessDrift(),
        condition=(
            "the lag is held at a bound of two or more versions for ten steps, or it is a version "
            "and half above that of the run's first steady steps"
        ),
        summary="Samples lag {value} behind ({basis}), {what}; {side}.",
        cause="One side is slower than the other; the lag alone does not say which.",
        first_look="Waits of the trainer and pauses of the rollouts, and where samples age.",
    ),
    Rule(
        "staleness.bound_exceeded",
        "Staleness bound exceeded",
        "fault",
        "critical",
        BoundExceeded(),
        condition="the oldest sample of a step is older than the run's bound allows",
        summary="A sample lags {value} behind, the bound is {threshold} ({basis}); {side}.",
        cause="What limits the lag is not in force, often after a resume that lost its counters.",
        first_look="Counters of accepted samples after the resume, and the configured bound.",
    ),
    Rule(
        "staleness.drops",
        "Stale samples dropped",
        "fault",
        "warning",
        StaleDrops(),
        condition="more than a fifth of the generated samples of three steps is dropped as stale",
        summary="{value} of the generated samples were dropped as too old; {side}.",
        cause="Generation is wasted: long samples outlive the bound.",
        first_look="Lengths of dropped and kept samples, the bound, and partial rollout.",
        for_steps=2,
    ),
)
