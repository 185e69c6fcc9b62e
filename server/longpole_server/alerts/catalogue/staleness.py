"""Rules about the age of the policy that made the samples."""

from longpole_server.alerts.detectors.samples import StaleDrops
from longpole_server.alerts.detectors.staleness import BoundExceeded, StalenessDrift
from longpole_server.alerts.rule import Rule

STALENESS_RULES: tuple[Rule, ...] = (
    Rule(
        "staleness.drift",
        "Staleness drifts",
        "trend",
        "warning",
        StalenessDrift(),
        condition=(
            "the lag is held at a bound of two or more versions for ten steps, or its median is "
            "twice that of the start and a version more"
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
        summary="A sample lags {value} behind, the bound is {threshold} ({basis}).",
        cause="What limits the lag is not in force, often after a resume that lost its counters.",
        first_look="Counters of accepted samples after the resume, and the configured bound.",
    ),
    Rule(
        "staleness.drops",
        "Stale samples dropped",
        "fault",
        "warning",
        StaleDrops(),
        condition="more than a fifth of the generated samples is dropped as stale in two steps",
        summary="{value} of the generated samples were dropped as too old.",
        cause="Generation is wasted: long samples outlive the bound.",
        first_look="Lengths of dropped and kept samples, the bound, and partial rollout.",
        for_steps=2,
    ),
)
