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
            "reward",
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
            "ppo_actor/kl_rewards/avg",
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
        ),
    ),
    MetricKind("tokens_prompt", "tokens", "prompt tokens"),
    MetricKind("tokens_response", "tokens", "response tokens"),
    MetricKind("tokens_generated", "tokens", "generated tokens"),
    MetricKind("filtered_ratio", "1", "filtered samples"),
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
        ("perf/mfu/actor", "mfu/actor", "performance/train_fp_utilization"),
        healthy=(0.35, None),
    ),
    MetricKind("mfu_infer", "1", "MFU, log probabilities", ("perf/mfu/actor_infer",)),
    MetricKind("mfu_step", "1", "MFU, whole step"),
    MetricKind("rollout_throughput", "tokens/s", "generated tokens per second"),
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
        ),
    ),
    MetricKind(
        "buffer_capacity", "samples", "buffer capacity", ("fully_async/static/max_queue_size",)
    ),
    MetricKind(
        "in_flight", "samples", "samples in flight", ("fully_async/monitor/active_tasks_size",)
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
        ),
    ),
    MetricKind(
        "importance_ess", "1", "effective sample size", ("rollout_corr/rollout_is_eff_sample_size",)
    ),
    MetricKind("memory_allocated", "bytes", "memory allocated"),
    MetricKind("memory_reserved", "bytes", "memory reserved"),
)
METRICS: Mapping[str, MetricKind] = MappingProxyType({kind.name: kind for kind in METRIC_KINDS})

# Aliases whose source writes 0..100 where the canonical metric is 0..1.
PERCENT_ALIASES = frozenset({"perf/mfu", "learner_mfu", "actor_mfu", "trainer_mfu_percent"})

CANONICAL_OF_ALIAS: Mapping[str, str] = MappingProxyType(
    {alias: kind.name for kind in METRIC_KINDS for alias in kind.aliases}
)


def read_metric(name: str, scalars: Mapping[str, float]) -> float | None:
    """Return the value of canonical metric `name` in its unit, or None when nobody reported it."""
    if name in scalars:
        return scalars[name]
    for alias in METRICS[name].aliases:
        if alias in scalars:
            value = scalars[alias]
            return value / 100.0 if alias in PERCENT_ALIASES else value
    return None
