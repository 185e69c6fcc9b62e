"""Every number that a diagnosis decides by: one table with unit, reason and source.

Users override values by name; nothing else in this package holds a limit.
"""

from collections.abc import Mapping
from types import MappingProxyType

from longpole_server.diagnosis.finding_thresholds import FINDING_THRESHOLDS
from longpole_server.diagnosis.threshold import Threshold
from longpole_server.errors import ConfigError

_RULES = "decision table"
_SEEDS = "health table of the seeds"


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
        "rollout.preemption.kv_ratio",
        0.90,
        "1",
        "engines preempt when the KV cache is full: below this, something else stops the samples",
        "prime-rl's controller trims hard above 0.9",
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
        "rollout.few_samples",
        8,
        "samples",
        "of fewer samples a step one is always the last by far: what they prove is no more than "
        "likely",
        "as many as make a trend",
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
        "rollout.queue.ratio",
        0.10,
        "1",
        "a queue this long, as a part of gen, is worth naming",
        "a tenth of what the loop waits for",
    ),
    Threshold(
        "rollout.imbalance.queue_factor",
        3.0,
        "1",
        "a queue this much longer than the usual replica's is no accident of lengths",
        "queues differ by half on evenly loaded replicas",
    ),
    Threshold(
        "rollout.imbalance.idle_ratio",
        0.20,
        "1",
        "a replica that idles this part of gen beside another one's queue could have taken from it",
        "health table: rollout GPUs busy above 0.80",
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
        "rollout.long_tail.exposed_ratio",
        0.25,
        "1",
        "with a buffer between, the last 5 % of the samples matter only when the trainer's wait is "
        "this much about them",
        "evenly spread ends would make it 0.05",
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
    Threshold(
        "rollout.engine.fast_tokens_per_s",
        100.0,
        "tokens/s",
        "what a sample decodes at, at the most, with usual concurrency: bounds the estimate",
        "decode rates of current engines: 30 to 100 tokens/s a sequence",
    ),
    Threshold(
        "rollout.engine.usual_bandwidth_ratio",
        0.50,
        "1",
        "what decoding usually reads of the memory's peak: bounds the estimate",
        "decode on current engines reaches 0.5 to 0.8 of the peak",
    ),
    Threshold(
        "rollout.engine.dram_active",
        0.30,
        "1",
        "decoding is bound by memory: GPUs that read it less than this wait for something else",
        "decode on current engines keeps memory 0.5 to 0.8 busy",
    ),
    Threshold(
        "rollout.engine.bandwidth_ratio",
        0.30,
        "1",
        "decoding that reads weights and KV cache at less than this part of the memory's peak "
        "waits for something else: launches, communication, the scheduler",
        "decode on current engines reaches 0.5 to 0.8 of the peak",
    ),
    Threshold("update.mfu.healthy_dense", 0.35, "1", "usual of tuned dense training", _SEEDS),
    Threshold("update.mfu.healthy_moe", 0.20, "1", "usual of tuned MoE training", _SEEDS),
    Threshold("update.mfu.low_dense", 0.20, "1", "small batches, switching, traffic", _SEEDS),
    Threshold("update.mfu.low_moe", 0.10, "1", "small batches, switching, traffic", _SEEDS),
    Threshold(
        "update.mfu.target_dense",
        0.50,
        "1",
        "what well tuned training reaches; of a mixture of experts as much above healthy",
        _SEEDS,
    ),
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
        "sync.link_bytes_per_s",
        10e9,
        "bytes/s",
        "what one link between nodes carries at least; a sync that is slower is not link-bound",
        "100 Gbit/s InfiniBand or RoCE",
    ),
    Threshold(
        "sync.phases_ratio",
        0.50,
        "1",
        "phases that cover less than half of the sync do not explain it",
        "half, as elsewhere",
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
    Threshold(
        "async.overlap_ratio",
        0.10,
        "1",
        "trainer and rollout take turns: the mode is asynchronous, the work is not",
        _RULES,
    ),
    Threshold(
        "async.buffer_full_ratio",
        0.90,
        "1",
        "a buffer that holds this much between two readings is full but for what was just taken",
        "fully asynchronous trainers stop the rollout at its capacity",
    ),
    Threshold(
        "gpu.busy_activity",
        0.30,
        "1",
        "SM activity from which a GPU counts as fully at work, below in proportion",
        "decode of small batches keeps a third of the SMs active",
    ),
    Threshold(
        "gpu.idle_activity",
        0.10,
        "1",
        "SM activity below which a GPU counts as idle: copies and spinning collectives",
        "copies occupy few multiprocessors",
    ),
    Threshold(
        "ray.spilled_bytes",
        1e9,
        "bytes",
        "what Ray's object stores write to disk and read back a step: below it, a disk needs less "
        "than a second",
        "ordinary NVMe disks: a gigabyte a second or more",
    ),
    Threshold(
        "straggler.clock_ratio",
        0.85,
        "1",
        "SM clock at work against the median of its role: what is slower holds up the others",
        "power caps alone move clocks by a tenth",
    ),
    *FINDING_THRESHOLDS,
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
