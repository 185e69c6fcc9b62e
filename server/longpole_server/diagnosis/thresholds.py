"""Every number that a diagnosis decides by: one table with unit, reason and source.

Users override values by name; nothing else in this package holds a limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from longpole_server.errors import ConfigError

_RULES = "decision table"
_SEEDS = "health table of the seeds"


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit.

    Attributes:
        name: Dotted name, by which it is overridden.
        unit: `1` for ratios and shares, `s`, `tokens/s`, `samples`, `nats`.
        reason: Why there is a limit here at all, and why at this value.
        source: Where the value comes from.
    """

    name: str
    value: float
    unit: str
    reason: str
    source: str


THRESHOLDS: tuple[Threshold, ...] = (
    Threshold(
        "dominance.share",
        0.40,
        "1",
        "below it, the loop waits for several families about equally",
        _RULES,
    ),
    Threshold(
        "dominance.margin",
        0.05,
        "1",
        "a family that leads by less changes places from step to step",
        _RULES,
    ),
    Threshold(
        "outside.ratio",
        0.50,
        "1",
        "validation and checkpoints take half as long as the steps between them",
        _RULES,
    ),
    Threshold(
        "stability.ratio",
        1.25,
        "1",
        "the other side got slower too: then something shared is slow",
        "ordinary scatter of step times",
    ),
    Threshold(
        "rollout.preemption.work_ratio",
        0.05,
        "1",
        "tokens computed twice, as a part of those generated",
        _RULES,
    ),
    Threshold(
        "rollout.end.ratio",
        0.50,
        "1",
        "what fills at least half of the last samples' time is why they are last",
        _RULES,
    ),
    Threshold(
        "rollout.end.sample_ratio",
        0.01,
        "1",
        "only the last-finishing samples are waited for; work before overlaps others' decoding",
        _RULES,
    ),
    Threshold(
        "rollout.end.min_samples",
        3,
        "samples",
        "one sample alone may be an accident",
        _RULES,
    ),
    Threshold(
        "rollout.end.span_ratio",
        0.50,
        "1",
        "samples that fill less than half of gen do not explain it",
        "half, as for the part inside a sample",
    ),
    Threshold(
        "rollout.truncation.ratio",
        0.25,
        "1",
        "with a quarter of samples at the cap, the cap sets the length of gen",
        _RULES,
    ),
    Threshold(
        "rollout.imbalance.ratio",
        1.3,
        "1",
        "a replica this much slower than its peers ends after them; lengths may differ as much",
        _RULES,
    ),
    Threshold(
        "rollout.long_tail.span_ratio",
        0.85,
        "1",
        "the slowest sample is what gen waits for only when it fills gen",
        _RULES,
    ),
    Threshold(
        "rollout.long_tail.time_ratio",
        1.5,
        "1",
        "slowest to mean time from which most slots stand empty at the end",
        _RULES,
    ),
    Threshold(
        "rollout.long_tail.token_slack",
        1.5,
        "1",
        "how far the time ratio may exceed the token ratio that is to explain it",
        _RULES,
    ),
    Threshold(
        "rollout.engine.uniform_ratio",
        1.3,
        "1",
        "slowest to mean time below which all samples are equally slow",
        _RULES,
    ),
    Threshold(
        "rollout.engine.slow_tokens_per_s",
        30.0,
        "tokens/s",
        "a sample that decodes slower than this is slow at usual concurrency",
        "decode rates of current engines: 30 to 100 tokens/s a sequence",
    ),
    Threshold("update.mfu.healthy_dense", 0.35, "1", "usual of tuned dense training", _SEEDS),
    Threshold("update.mfu.healthy_moe", 0.20, "1", "usual of tuned MoE training", _SEEDS),
    Threshold("update.mfu.low_dense", 0.20, "1", "small batches, switching, traffic", _SEEDS),
    Threshold("update.mfu.low_moe", 0.10, "1", "small batches, switching, traffic", _SEEDS),
    Threshold(
        "update.stage_of_inner_ratio",
        0.75,
        "1",
        "more than a quarter of the stage lies outside the training passes",
        _RULES,
    ),
    Threshold(
        "update.imbalance.ratio",
        1.15,
        "1",
        "all ranks wait for the one with the most tokens",
        _RULES,
    ),
    Threshold(
        "sync.reachable_s",
        10.0,
        "s",
        "what a weight sync through shared NVMe takes; over NCCL it is seconds",
        "seeds: three ways to move weights",
    ),
    Threshold(
        "sync.gpus_idle_ratio",
        0.10,
        "1",
        "GPUs that compute less than this during a weight sync stand and wait for it",
        "copies occupy few multiprocessors",
    ),
    Threshold("async.trainer_wait_ratio", 0.20, "1", "the trainer is starved", _RULES),
    Threshold("async.trainer_busy_ratio", 0.10, "1", "the trainer hardly waits", _RULES),
    Threshold("health.clip_fraction", 0.50, "1", "updates are too aggressive", _SEEDS),
    Threshold("health.kl_ref", 50.0, "nats", "the policy drifts, per sequence", _SEEDS),
    Threshold("health.truncated_ratio", 0.25, "1", "many answers end unfinished", _RULES),
    Threshold(
        "finding.change_ratio",
        1.25,
        "1",
        "a change against the own baseline worth a line",
        "ordinary scatter of step times",
    ),
    Threshold(
        "finding.min_share",
        0.02,
        "1",
        "changes of stages smaller than this part of a step do not matter",
        "ordinary scatter of step times",
    ),
    Threshold(
        "finding.scatter",
        3.0,
        "standard deviations",
        "a change that the stage's own scatter makes once in hundreds of windows says nothing",
        "three-sigma rule",
    ),
)


class Limits:
    """The table with a user's overrides."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self._values = MappingProxyType(dict(values))

    def __getitem__(self, name: str) -> float:
        """Return the value of a threshold."""
        return self._values[name]


def resolve_limits(overrides: Mapping[str, float] | None = None) -> Limits:
    """Return the limits with overrides.

    Raises:
        ConfigError: An override names no threshold.
    """
    values = {threshold.name: threshold.value for threshold in THRESHOLDS}
    unknown = sorted(set(overrides or ()) - set(values))
    if unknown:
        raise ConfigError(
            f"There is no threshold `{unknown[0]}`.",
            "Thresholds are: " + ", ".join(sorted(values)) + ".",
        )
    return Limits(values | dict(overrides or {}))
