"""Canonical health metrics with their units, and the names frameworks give them.

Points keep the name the trainer writes; the canonical name is looked up when a value is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MetricKind:
    """A canonical metric.

    Attributes:
        name: The canonical name.
        unit: UCUM-like unit: `1`, `s`, `tokens`, `tokens/s/GPU`, `nats`, `bytes`.
        label: For people.
        aliases: Names under which frameworks write it, in the order they are trusted.
        healthy: The band of the seeds' health table, None where a side is open.
    """

    name: str
    unit: str
    label: str
    aliases: tuple[str, ...] = ()
    healthy: tuple[float | None, float | None] | None = None


METRIC_KINDS: tuple[MetricKind, ...] = (
    MetricKind(
        "reward_mean",
        "1",
        "reward",
        (
            "critic/score/mean",
            "critic/rewards/mean",
            "rollout/raw_reward",
            "rollout/reward_mean",
            "train/reward",
            "ppo_actor/task_reward/avg",
            "reward/avg_raw_reward",
            "rollout/reward",
            "reward",
            "scores",
        ),
    ),
    MetricKind(
        "kl_ref",
        "nats",
        "KL to reference",
        (
            "actor/kl_loss",
            "actor/reward_kl_penalty",
            "critic/kl",
            "train/kl_loss",
            "kl",
            "train/kl_penalty",
            "policy/policy_kl",
            "loss/avg_kl",
            "ppo_actor/kl_rewards/avg",
            "objective/kl2_avg",
            "objective/kl_avg",
        ),
    ),
    MetricKind(
        "kl_update",
        "nats",
        "KL of the update",
        (
            "actor/ppo_kl",
            "train/ppo_kl",
            "ppo_kl",
            "train/policy_kl_error",
            "actor/approxkl",
            "actor/policykl",
            "ppo_actor/update/approx_kl/avg",
        ),
    ),
    MetricKind(
        "response_length_mean",
        "tokens",
        "response length, mean",
        (
            "response_length/mean",
            "rollout/response_len/mean",
            "rollout/response_length_mean",
            "completions/mean_length",
            "tokens/response_length/mean",
            "generate/avg_num_tokens",
            "train/gen_tokens_per_sample/mean",
            "train/mean_gen_tokens_per_sample",
            "val/sequence_lengths",
            # First versions of TRL, and OpenRLHF before it logged rollouts apart.
            "completion_length",
            "response_length",
        ),
    ),
    MetricKind(
        "response_length_max",
        "tokens",
        "response length, max",
        (
            "response_length/max",
            "rollout/response_len/max",
            "completions/max_length",
            "tokens/response_length/max",
            "generate/max_num_tokens",
            "train/gen_tokens_per_sample/max",
            "val/sequence_lengths_max",
        ),
    ),
    MetricKind(
        "truncated_ratio",
        "1",
        "truncated",
        (
            "response_length/clip_ratio",
            "rollout/truncated_ratio",
            "rollout/truncated_rate",
            "completions/clipped_ratio",
            "train/truncation_rate",
            "val/truncated_completion_fraction",
            "val/stop_rate",
        ),
        healthy=(None, 0.25),
    ),
    MetricKind(
        "clip_fraction",
        "1",
        "PPO clip fraction",
        (
            "actor/pg_clipfrac",
            "train/pg_clipfrac",
            "ppo_clip_ratio",
            "clip_ratio/region_mean",
            "ppo_actor/update/clip_ratio/avg",
            "policy/loss_metrics/clip_ratio",
            "actor/ppo_ratio_clipfrac",
            "policy/clipfrac_avg",
        ),
        healthy=(None, 0.50),
    ),
    MetricKind(
        "entropy",
        "nats",
        "entropy",
        (
            "actor/entropy",
            "actor/entropy_loss",
            "train/entropy_loss",
            "entropy_loss",
            "entropy",
            "train/approx_entropy",
            "policy/policy_entropy",
            "critic/entropy/mean",
            "ppo_actor/update/entropy/avg",
            "entropy/all/mean",
            "policy/entropy_avg",
        ),
    ),
    MetricKind(
        "grad_norm",
        "1",
        "gradient norm",
        (
            "actor/grad_norm",
            "train/grad_norm",
            "actor_grad_norm",
            "grad_norm",
            "policy/grad_norm",
            "optim/grad_norm",
            "ppo_actor/update/grad_norm",
        ),
    ),
    MetricKind(
        "tokens_total",
        "tokens",
        "tokens",
        (
            "perf/total_num_tokens",
            "train/total_num_tokens",
            "progress/tokens",
            "ppo_actor/n_tokens",
            "val/num_step_tokens",
        ),
    ),
    MetricKind("tokens_prompt", "tokens", "prompt tokens", ("progress/input_tokens",)),
    MetricKind("tokens_response", "tokens", "response tokens", ("progress/output_tokens",)),
    MetricKind("tokens_generated", "tokens", "generated tokens"),
    MetricKind(
        "filtered_ratio",
        "1",
        "filtered samples",
        ("dynamic_filtering_pass_rate", "async/keep_rate"),
    ),
    MetricKind(
        "throughput",
        "tokens/s/GPU",
        "throughput",
        ("perf/throughput", "performance/tokens_per_sec_per_gpu", "system/tps_gpu"),
    ),
    MetricKind(
        "mfu_actor",
        "1",
        "MFU, actor update",
        (
            "perf/mfu/actor",
            "mfu/actor",
            "performance/train_fp_utilization",
            "perf/mfu",
            "learner_mfu",
            "trainer_mfu_percent",
        ),
        healthy=(0.35, None),
    ),
    MetricKind("mfu_infer", "1", "MFU, log probabilities", ("perf/mfu/actor_infer",)),
    MetricKind("mfu_step", "1", "MFU, whole step"),
    MetricKind(
        "rollout_throughput", "tokens/s", "generated tokens per second", ("generation_tok_per_s",)
    ),
    MetricKind(
        "staleness_mean",
        "1",
        "staleness, mean",
        (
            "training/off_policy/trajectory_staleness/mean",
            "async/staleness_mean",
            "train/avg_trajectory_age",
            "off_policy/mean",
            "scheduler/off_policy_ratio",
            "version_stats/sample_staleness_theta_avg",
            "ppo_actor/version_stats/sample_staleness_theta_avg",
            "ppo_actor/update/version_stats/sample_staleness_theta_avg",
        ),
    ),
    MetricKind(
        "staleness_max",
        "1",
        "staleness, max",
        (
            "training/off_policy/trajectory_staleness_worst/max",
            "training/off_policy/trajectory_staleness/max",
            "async/staleness_max",
            "version_stats/sample_staleness_theta_max",
            "ppo_actor/version_stats/sample_staleness_theta_max",
            "ppo_actor/update/version_stats/sample_staleness_theta_max",
            "off_policy/max",
        ),
    ),
    MetricKind("stale_drop_ratio", "1", "stale samples dropped", healthy=(None, 0.20)),
    MetricKind("rollout_paused_ratio", "1", "rollout paused"),
    MetricKind(
        "buffer_size",
        "samples",
        "buffer",
        (
            "fully_async/monitor/queue/mq_queue_size",
            "train/buffer_size",
            "async/gen_buffer_qsize_at_wait_start",
            "buffer_qsize",
        ),
    ),
    MetricKind(
        "buffer_capacity", "samples", "buffer capacity", ("fully_async/static/max_queue_size",)
    ),
    MetricKind(
        "in_flight",
        "samples",
        "samples in flight",
        ("fully_async/monitor/active_tasks_size", "dispatcher/inflight/train"),
    ),
    MetricKind(
        "rollout_train_mismatch",
        "nats",
        "rollout-train mismatch",
        (
            "rollout_corr/kl",
            "mismatch/mismatch_kl",
            "train/train_rollout_logprob_abs_diff",
            "vllm_kl",
            "train/gen_kl_error",
            "sampling/sampling_logp_difference/mean",
            "mismatch_kl/all/mean",
            "ppo_actor/update/behave_approx_kl/avg",
            "policy/rollout_train_logprobs_abs_diff_mean",
        ),
    ),
    MetricKind(
        "importance_ess", "1", "effective sample size", ("rollout_corr/rollout_is_eff_sample_size",)
    ),
    MetricKind("memory_allocated", "bytes", "memory allocated"),
    MetricKind("memory_reserved", "bytes", "memory reserved"),
)
METRICS: Mapping[str, MetricKind] = MappingProxyType({kind.name: kind for kind in METRIC_KINDS})


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a framework's value becomes the canonical one: `value * factor + offset`.

    Attributes:
        written: What the framework writes, in words.
    """

    factor: float
    offset: float
    written: str


_PERCENT = Conversion(0.01, 0.0, "percent")
# Aliases whose source writes another quantity or unit than the canonical metric's.
CONVERSIONS: Mapping[str, Conversion] = MappingProxyType(
    {
        "perf/mfu": _PERCENT,
        "learner_mfu": _PERCENT,
        "trainer_mfu_percent": _PERCENT,
        "dynamic_filtering_pass_rate": Conversion(-0.01, 1.0, "percent kept"),
        "async/keep_rate": Conversion(-1.0, 1.0, "fraction kept"),
        "val/stop_rate": Conversion(-1.0, 1.0, "fraction that ended by itself"),
    }
)
# Aliases that another framework uses for something else: not read beside that one's names.
NOT_BESIDE: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        # verl: tokens/s/GPU of the step. prime-rl: tokens/s of all GPUs while they train.
        "perf/throughput": frozenset(
            {"perf/throughput_per_gpu", "perf/peak_memory", "perf/mfu", "time/forward_backward"}
        ),
    }
)
# Counters since the start of the training, with the metric that their growth over a step is.
CUMULATIVE: Mapping[str, str] = MappingProxyType({"num_tokens": "tokens_total"})
# Seconds of the step, from a reader that knows them better than any one scalar of the step does.
STEP_SECONDS = "step_seconds"

CANONICAL_OF_ALIAS: Mapping[str, str] = MappingProxyType(
    {alias: kind.name for kind in METRIC_KINDS for alias in kind.aliases}
)


def read_metric(name: str, scalars: Mapping[str, float]) -> float | None:
    """Return the value of canonical metric `name` in its unit, or None when nobody reported it."""
    if name in scalars:
        return scalars[name]
    for alias in METRICS[name].aliases:
        if alias in scalars and not _means_something_else(alias, scalars):
            value = scalars[alias]
            conversion = CONVERSIONS.get(alias)
            if conversion is None:
                return value
            converted = value * conversion.factor + conversion.offset
            # The rest of a whole that is none was not written in the unit we know.
            if conversion.factor > 0 or 0.0 <= converted <= 1.0:
                return converted
    return None


def _means_something_else(alias: str, scalars: Mapping[str, float]) -> bool:
    others = NOT_BESIDE.get(alias)
    return others is not None and not others.isdisjoint(scalars)
