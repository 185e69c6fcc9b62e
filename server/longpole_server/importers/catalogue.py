"""What each framework writes where, by name: the base of the documentation's tables.

Only names that mean something canonical are listed. What they mean is decided by the tables of
timers and of metrics alone; here stands which of them a log, a file or a tracker holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from longpole.conventions.metrics import CUMULATIVE, STEP_SECONDS


@dataclass(frozen=True, slots=True)
class Source:
    """One place where a framework writes.

    Attributes:
        title: For people.
        names: What it holds there, under the framework's own names.
        labels: Where a reader computes a canonical metric: from what.
    """

    title: str
    names: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework.

    Attributes:
        name: As runs name it, and its page.
        missing: Canonical stages and metrics that no source fills, with the reason.
    """

    name: str
    title: str
    sources: tuple[Source, ...]
    missing: Mapping[str, str] = field(default_factory=dict[str, str])


def _under(prefix: str, *names: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in names)


_ENGINE_SIDE = "only the engines know: give their log too, or scrape them"
_PEAK = "frameworks log the highest value since the start, which says nothing of a step"

_VERL = (
    *_under(
        "timing_s/",
        *("step", "gen", "reward", "old_log_prob", "ref", "values", "adv"),
        *("update_critic", "update_actor", "update_weights", "save_checkpoint", "testing"),
        *("wait_for_enough_samples", "param_sync", "switch_wait", "switch_to_trainer"),
        "dump_rollout_generations",
    ),
    *("perf/total_num_tokens", "perf/throughput", "perf/mfu/actor", "perf/mfu/actor_infer"),
    *("critic/score/mean", "actor/kl_loss", "actor/ppo_kl", "actor/pg_clipfrac"),
    *("actor/entropy", "actor/grad_norm", "rollout_corr/kl"),
    "rollout_corr/rollout_is_eff_sample_size",
    *_under("response_length/", "mean", "max", "clip_ratio"),
    *_under("training/off_policy/", "trajectory_staleness/mean", "trajectory_staleness_worst/max"),
    *_under(
        "fully_async/",
        *("monitor/queue/mq_queue_size", "static/max_queue_size", "monitor/active_tasks_size"),
    ),
)
_SLIME = (
    *_under(
        "perf/",
        *("step_time", "rollout_time", "train_wait_time", "train_time", "sleep_time"),
        *("wake_up_time", "update_weights_time", "data_preprocess_time", "log_probs_time"),
        *("ref_log_probs_time", "actor_train_time", "save_model_time"),
    ),
    *_under("rollout/", "raw_reward", "response_len/mean", "response_len/max", "truncated_ratio"),
    *_under(
        "train/",
        *("kl_loss", "ppo_kl", "pg_clipfrac", "entropy_loss", "grad_norm"),
        "train_rollout_logprob_abs_diff",
    ),
)
_OPENRLHF = (
    *_under("timing/", "step_total", "generation", "make_experience", "ppo_train", "broadcast"),
    *_under("rollout/", "reward_mean", "response_length_mean", "truncated_rate"),
    *("kl", "ppo_kl", "ppo_clip_ratio", "entropy_loss", "actor_grad_norm", "vllm_kl"),
    "dynamic_filtering_pass_rate",
)
_NEMO_TIMERS = _under(
    "timing/train/",
    *("total_step_time", "generation", "exposed_generation", "reward_calculation"),
    *("policy_and_reference_logprobs", "value_inference", "advantage_calculation"),
    *("value_training", "policy_training", "weight_sync", "prepare_for_generation/total"),
    *("data_processing", "logprob_inference_prep", "training_prep", "checkpointing"),
)
_NEMO_CONSOLE = (
    *_NEMO_TIMERS,
    "timing/validation/total_validation_time",
    *("train/reward", "train/mean_gen_tokens_per_sample", "train/gen_kl_error"),
    *("train/buffer_size", "train/avg_trajectory_age"),
    *_under("performance/", "tokens_per_sec_per_gpu", "train_fp_utilization"),
)
_NEMO_TRACKERS = (
    *_NEMO_CONSOLE,
    *_under(
        "train/",
        *("kl_penalty", "policy_kl_error", "approx_entropy", "grad_norm", "total_num_tokens"),
        *("truncation_rate", "gen_tokens_per_sample/max"),
    ),
)
_AREAL_TIMERS = _under(
    "timeperf/",
    *("rollout", "critic_values", "ref_logp", "recompute_logp", "compute_advantage"),
    *("train_step", "critic_train_step", "update_weights", "save", "eval", "clear_batches"),
)
_AREAL = (
    *_AREAL_TIMERS,
    # Its traces do not say of which step these are.
    *_under(
        "timeperf/",
        *("rollout_pause", "rollout_offload", "rollout_onload", "rollout_resume"),
        *("actor_onload", "actor_offload", "critic_onload", "critic_offload"),
        *("ref_onload", "ref_offload", "teacher_onload", "teacher_offload"),
    ),
    *_under("ppo_actor/", "task_reward/avg", "kl_rewards/avg", "n_tokens"),
    *_under(
        "ppo_actor/update/",
        *("approx_kl/avg", "clip_ratio/avg", "entropy/avg", "grad_norm", "behave_approx_kl/avg"),
    ),
    *_under("version_stats/", "sample_staleness_theta_avg", "sample_staleness_theta_max"),
)
_TRL_CONSOLE = (
    *("step_time", "reward", "kl", "entropy", "grad_norm", "clip_ratio/region_mean"),
    *_under("completions/", "mean_length", "max_length", "clipped_ratio"),
    *("sampling/sampling_logp_difference/mean", "num_tokens"),
    *("queue_wait_time_s", "weight_sync_time_s", "buffer_qsize", "generation_tok_per_s"),
)
_TRL_PROFILING = _under(
    "profiling/Time taken: GRPOTrainer.",
    *("vLLM.generate", "_prepare_inputs", "_calculate_rewards", "sync_weights", "compute_loss"),
)
_SKYRL = (
    *_under(
        "timing/",
        *("step", "generate", "wait_for_generation_buffer", "convert_to_training_input"),
        *("fwd_logprobs_values_reward", "compute_advantages_and_returns", "critic_train"),
        *("policy_train", "train_critic_and_policy", "sync_weights", "eval", "save_checkpoints"),
    ),
    *_under("async/", "staleness_mean", "staleness_max", "keep_rate"),
    "async/gen_buffer_qsize_at_wait_start",
    *("reward/avg_raw_reward", "generate/avg_num_tokens", "generate/max_num_tokens"),
    *_under("policy/", "policy_kl", "policy_entropy", "grad_norm", "loss_metrics/clip_ratio"),
    "policy/rollout_train_logprobs_abs_diff_mean",
)
_ROLL = (
    *_under(
        "time/",
        *("step_generate", "ref_log_probs_values", "old_log_probs", "step_train"),
        *("step_model_update", "step_stop_server", "val_step"),
    ),
    STEP_SECONDS,
    *("critic/score/mean", "critic/entropy/mean", "actor/kl_loss", "actor/approxkl"),
    *("actor/ppo_ratio_clipfrac", "system/tps_gpu", "scheduler/off_policy_ratio"),
    *_under("tokens/response_length/", "mean", "max"),
)
_ROLL_AGENTIC = (
    *_under(
        "time/",
        *("step_total", "step_rollout", "step_ref_log_probs_values_reward"),
        *("step_old_log_probs_values", "step_cal_norm_rewards", "step_adv", "step_train"),
        *("step_model_update", "step_shrink", "step_val", "step_log"),
    ),
    *("critic/score/mean", "critic/entropy/mean", "actor/kl_loss", "actor/approxkl"),
    *("actor/ppo_ratio_clipfrac", "system/tps_gpu", "scheduler/off_policy_ratio"),
    *_under("tokens/response_length/", "mean", "max"),
)
_PRIME_CONSOLE = (
    *("time/step", "entropy/all/mean", "mismatch_kl/all/mean", "optim/grad_norm"),
    *("perf/mfu", "perf/throughput", "perf/peak_memory"),
)
_PRIME_TRAINER = (
    *_PRIME_CONSOLE,
    *_under(
        "time/", "wait_for_batch", "load_data", "forward_backward", "broadcast_weights", "save_ckpt"
    ),
)
_PRIME_ORCHESTRATOR = (
    *("reward_mean", "off_policy/mean", "off_policy/max", "dispatcher/inflight/train"),
    *_under("progress/", "tokens", "input_tokens", "output_tokens"),
)
_PRIME_ORCHESTRATOR_CONSOLE = ("reward_mean", "off_policy/max", "truncated_ratio")

_OPEN_INSTRUCT = (
    *_under(
        "time/",
        *("total", "trainer_waiting_for_data", "training", "weight_sync", "saving"),
        "health_check",
    ),
    *("learner_mfu", "scores", "objective/kl2_avg", "optim/grad_norm"),
    *("policy/clipfrac_avg", "policy/entropy_avg"),
    *_under(
        "val/",
        *("num_step_tokens", "sequence_lengths", "sequence_lengths_max"),
        "stop_rate",
    ),
)

_TRACKERS = "wandb, TensorBoard, MLflow, CSV"

FRAMEWORKS: tuple[Framework, ...] = (
    Framework(
        "verl",
        "verl",
        (Source("console, JSONL", _VERL), Source(_TRACKERS, _VERL)),
        {
            "rollout_wait": "the rollout side logs idle ratios, and no seconds of the step",
            "make_experience": "its parts are logged one by one",
        },
    ),
    Framework(
        "slime",
        "slime",
        (Source("console", _SLIME), Source(_TRACKERS, _SLIME)),
        {
            "reward": "inside the rollout",
            "values": "the critic's process logs its loss only",
            "adv": "inside the training",
            "update_critic": "the critic's process logs its loss only",
            "testing": "evaluations are logged without their time",
            "tokens_total": "not logged; the rates given are those of the rollout or of the update",
            "throughput": "its rates are those of the rollout (response tokens) or of the update",
            "mfu_actor": "logged as TFLOPS: divide by the GPU's peak",
            "staleness_mean": "no metric in its main branch",
            "staleness_max": "no metric in its main branch",
        },
    ),
    Framework(
        "openrlhf",
        "OpenRLHF",
        (Source("console", _OPENRLHF), Source("wandb, TensorBoard", _OPENRLHF)),
        {
            "save_checkpoint": "no timer",
            "testing": "no timer",
            "trainer_wait": "asynchronous: what the step's wall time leaves is unattributed",
            "prepare": "no timer",
            "sleep_wake": "no timer",
            "tokens_total": "not logged",
            "throughput": "not logged",
            "response_length_max": "not logged",
            "mfu_actor": "not logged",
            "staleness_mean": "not logged",
            "staleness_max": "not logged",
            "buffer_size": "the asynchronous queue is not logged",
        },
    ),
    Framework(
        "nemo_rl",
        "NeMo-RL",
        (Source("console", _NEMO_CONSOLE), Source(_TRACKERS, _NEMO_TRACKERS)),
        {
            "make_experience": "its parts are logged one by one",
            "rollout_wait": "logged in thread-seconds since the start, which are no wall time",
            "clip_fraction": "logged as the ratios before and after clamping only",
            "staleness_max": "only the mean age is logged",
        },
    ),
    Framework(
        "areal",
        "AReaL",
        (
            Source("console", _AREAL),
            Source("perf_tracer JSONL", _AREAL_TIMERS),
            Source("wandb, TensorBoard", _AREAL),
        ),
        {
            "reward": "inside the rollout",
            "trainer_wait": "`timeperf/rollout`, in runs whose samples are older than a version",
            "rollout_wait": "pauses of the rollout are the trainer's: sleep_wake",
            "response_length_mean": "`seq_len` holds the prompt too",
            "response_length_max": "`seq_len` holds the prompt too",
            "truncated_ratio": "`no_eos_ratios` counts what fills the padded width, not the limit",
            "throughput": "not logged",
            "mfu_actor": "not logged",
        },
    ),
    Framework(
        "trl",
        "TRL",
        (
            Source("console, trainer_state.json", _TRL_CONSOLE),
            Source("wandb, MLflow", (*_TRL_CONSOLE, *_TRL_PROFILING)),
        ),
        {
            "old_log_prob": "the same timed block serves old, reference and training passes",
            "ref": "the same timed block serves old, reference and training passes",
            "adv": "inside the preparation of inputs",
            "save_checkpoint": "no timer",
            "testing": "the time of an evaluation is logged apart from steps",
            "kl_update": "not logged",
            "throughput": "not logged; the number of GPUs is not either",
            "mfu_actor": "not logged",
            "staleness_mean": "the asynchronous trainer prints it for dropped samples only",
        },
    ),
    Framework(
        "skyrl",
        "SkyRL",
        (Source("console", _SKYRL), Source(_TRACKERS, _SKYRL)),
        {
            "sleep_wake": "inside generation",
            "rollout_wait": "not logged",
            "tokens_total": "not logged",
            "throughput": "logged for the training phase only",
            "truncated_ratio": "not logged",
            "mfu_actor": "not logged",
            "kl_update": "not logged",
        },
    ),
    Framework(
        "roll",
        "ROLL",
        (
            Source("console, RLVR pipeline", _ROLL),
            Source("console, agentic pipeline", _ROLL_AGENTIC),
            Source("wandb, TensorBoard", _ROLL),
        ),
        {
            "save_checkpoint": "no timer of the whole",
            "trainer_wait": "`time/step_generate`, in runs whose samples lag behind",
            "tokens_total": "not logged; `system/tps` is a mean over five steps",
            "truncated_ratio": "`max_len_mask_ratio` counts what is kept, and is 1 when off",
            "grad_norm": "depends on the backend",
            "mfu_actor": "not logged",
            "staleness_max": "only the mean lag is logged, as `off_policy_ratio`",
        },
    ),
    Framework(
        "prime_rl",
        "prime-rl",
        (
            Source("trainer console", _PRIME_CONSOLE),
            Source(
                "orchestrator console",
                _PRIME_ORCHESTRATOR_CONSOLE,
                {
                    "reward_mean": "`Reward`",
                    "off_policy/max": "`Max Off-Policy`",
                    "truncated_ratio": "`Truncation` (percent)",
                },
            ),
            Source("trainer file monitor, wandb", _PRIME_TRAINER),
            Source(
                "orchestrator file monitor, wandb",
                _PRIME_ORCHESTRATOR,
                {"reward_mean": "`train/agg/effective/<agent>/reward/mean`, of a single agent"},
            ),
        ),
        {
            "gen": "the trainer only waits for it: trainer_wait",
            "reward": "inside the rollouts",
            "old_log_prob": "log probabilities come from the engines",
            "ref": "no reference model",
            "values": "no critic",
            "update_critic": "no critic",
            "adv": "in the orchestrator, without a timer",
            "sleep_wake": "engines have GPUs of their own",
            "testing": "a process of its own",
            "rollout_wait": "`time/wait_for_policy` is on the orchestrator's clock",
            "throughput": "logged over the update only, not over the step",
            "kl_ref": "no reference model",
            "clip_fraction": "logged as masked fractions of several kinds",
            "response_length_mean": "logged per environment",
            "response_length_max": "logged per environment",
        },
    ),
    Framework(
        "open_instruct",
        "open-instruct",
        (Source("wandb, CSV", _OPEN_INSTRUCT),),
        {
            "gen": "beside the training: the trainer only waits for it",
            "reward": "inside the rollouts",
            "old_log_prob": "inside the training",
            "ref": "inside the training",
            "values": "no critic",
            "update_critic": "no critic",
            "adv": "beside the training, without a timer",
            "sleep_wake": "engines have GPUs of their own",
            "testing": "beside the training",
            "rollout_wait": "`time/generation_waiting_for_trainer` is on the generators' clock",
            "throughput": "logged of all learners together",
            "mfu_infer": "`actor_mfu` is that of generation",
            "staleness_mean": "logged as the steps of the models that generated, not as a lag",
            "stale_drop_ratio": "logged as a count, `stale_results_dropped`",
        },
    ),
)

# Where a framework says nothing of its own.
DEFAULT_REASONS: Mapping[str, str] = {
    "tokens_generated": _ENGINE_SIDE,
    "rollout_throughput": _ENGINE_SIDE,
    "rollout_paused_ratio": _ENGINE_SIDE,
    "memory_allocated": _PEAK,
    "memory_reserved": _PEAK,
    "mfu_step": "computed from model, GPUs and tokens where these are known",
    "stale_drop_ratio": "not logged as a fraction",
}
# Names whose values are counters: the canonical metric is their growth.
DERIVED: Mapping[str, str] = dict(CUMULATIVE)
