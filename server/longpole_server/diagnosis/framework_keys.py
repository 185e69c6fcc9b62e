"""Which configuration keys turn a knob, by framework and version.

A hint at a key that is not there misleads. Every key was looked up in the framework's own
configuration (generated defaults, dataclasses or argument parsers) at the versions named; where
`since` and `until` are open, in every release from the middle of 2025 to August 2026.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

Version = tuple[int, ...]

_FULLY_ASYNC = frozenset({"fully_async"})
_OWN_POOLS = frozenset({"fully_async", "one_step_off"})
_V1_ASYNC = frozenset({"separate_async"})


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key.

    Attributes:
        name: As users write it: dotted for configuration files, with dashes for arguments.
        since: First release that has it.
        until: First release that no longer has it.
        modes: Modes whose trainer reads it; empty is every mode.
    """

    name: str
    since: Version = ()
    until: Version | None = None
    modes: frozenset[str] = frozenset()

    def exists(self, version: Version | None, mode: str | None) -> bool:
        """Tell whether a version (None: the newest) has the key, in a mode's trainer."""
        if self.modes and mode not in self.modes:
            return False
        if version is None:
            return self.until is None
        return self.since <= version and (self.until is None or version < self.until)


def _verl(*names: str, since: Version = (), modes: frozenset[str] = frozenset()) -> tuple[Key, ...]:
    return tuple(Key(name, since, modes=modes) for name in names)


def _openrlhf(*pairs: tuple[str | None, str | None]) -> tuple[Key, ...]:
    """Arguments before and after 0.10.2, which put dots into them."""
    renamed = (0, 10, 2)
    return tuple(
        key
        for before, after in pairs
        for key in (
            *((Key(f"--{before}", until=renamed),) if before else ()),
            *((Key(f"--{after}", since=renamed),) if after else ()),
        )
    )


def _skyrl(*names: str, before: tuple[str, ...] = ()) -> tuple[Key, ...]:
    """Keys of the dataclass configuration (0.5), and of the YAML before it."""
    renamed = (0, 5)
    return (
        *(Key(name, until=renamed) for name in before),
        *(Key(name, since=renamed if before else ()) for name in names),
    )


def _prime(*names: str, before: tuple[str, ...] = ()) -> tuple[Key, ...]:
    """Keys after 0.8.0, which moved the engine's into a table of their own, and before."""
    renamed = (0, 8, 1)
    return (
        *(Key(name, until=renamed) for name in before),
        *(Key(name, since=renamed if before else ()) for name in names),
    )


def _plain(*names: str) -> tuple[Key, ...]:
    return tuple(Key(name) for name in names)


_ROLLOUT = "actor_rollout_ref.rollout."
_ACTOR = "actor_rollout_ref.actor."
_ENGINE = "generator.inference_engine."
_VLLM = "policy.generation.vllm_cfg."
_ROLL_ENGINE = "actor_infer.strategy_args.strategy_config."

Knob = Mapping[str, tuple[Key, ...]]

KNOBS: Mapping[str, Knob] = MappingProxyType(
    {
        "engine.memory": {
            "verl": _verl(_ROLLOUT + "gpu_memory_utilization"),
            "slime": _plain("--sglang-mem-fraction-static"),
            "openrlhf": _openrlhf(("vllm_gpu_memory_utilization", "vllm.gpu_memory_utilization")),
            "nemo_rl": _plain(_VLLM + "gpu_memory_utilization"),
            "areal": _plain("sglang.mem_fraction_static", "vllm.gpu_memory_utilization"),
            "trl": _plain("vllm_gpu_memory_utilization"),
            "skyrl": _skyrl(
                _ENGINE + "gpu_memory_utilization", before=("generator.gpu_memory_utilization",)
            ),
            "roll": _plain(
                _ROLL_ENGINE + "gpu_memory_utilization", _ROLL_ENGINE + "mem_fraction_static"
            ),
            "prime_rl": _prime(
                "inference.vllm.gpu_memory_utilization",
                before=("inference.gpu_memory_utilization",),
            ),
        },
        "engine.concurrency": {
            "verl": _verl(_ROLLOUT + "max_num_seqs"),
            "slime": _plain("--sglang-server-concurrency", "--sglang-max-running-requests"),
            "areal": _plain(
                "rollout.max_concurrent_rollouts",
                "sglang.max_running_requests",
                "vllm.max_num_seqs",
            ),
            "skyrl": _skyrl(_ENGINE + "max_num_seqs", before=("generator.max_num_seqs",)),
            "roll": _plain("max_running_requests"),
            "prime_rl": (Key("orchestrator.concurrency.max_inflight", since=(0, 8, 1)),),
        },
        "engine.parallel": {
            "verl": _verl(_ROLLOUT + "tensor_model_parallel_size"),
            "slime": _plain("--rollout-num-gpus-per-engine"),
            "openrlhf": _openrlhf(("vllm_tensor_parallel_size", "vllm.tensor_parallel_size")),
            "nemo_rl": _plain(_VLLM + "tensor_parallel_size"),
            "trl": _plain("vllm_tensor_parallel_size"),
            "skyrl": _skyrl(
                _ENGINE + "tensor_parallel_size",
                before=("generator.inference_engine_tensor_parallel_size",),
            ),
            "prime_rl": _prime(
                "inference.vllm.tensor_parallel_size", before=("inference.parallel.tp",)
            ),
        },
        "engine.replicas": {
            "verl": _verl(_ROLLOUT + "data_parallel_size", since=(0, 6, 0)),
            "slime": _plain("--rollout-num-gpus"),
            "openrlhf": _openrlhf(("vllm_num_engines", "vllm.num_engines")),
            "nemo_rl": _plain(
                "policy.generation.colocated.resources.num_nodes",
                "policy.generation.colocated.resources.gpus_per_node",
            ),
            "skyrl": _skyrl(_ENGINE + "num_engines", before=("generator.num_inference_engines",)),
            "roll": _plain("actor_infer.device_mapping"),
            "prime_rl": _prime(
                "inference.vllm.data_parallel_size", before=("inference.parallel.dp",)
            ),
        },
        "engine.eager": {
            "verl": _verl(_ROLLOUT + "enforce_eager"),
            "slime": _plain("--sglang-disable-cuda-graph"),
            "openrlhf": _openrlhf(("enforce_eager", "vllm.enforce_eager")),
            "nemo_rl": _plain(_VLLM + "enforce_eager"),
            "areal": _plain("sglang.disable_cuda_graph", "vllm.enforce_eager"),
            "skyrl": _skyrl(_ENGINE + "enforce_eager", before=("generator.enforce_eager",)),
            "prime_rl": _prime(
                "inference.vllm.enforce_eager", before=("inference.model.enforce_eager",)
            ),
        },
        "engine.prefix_cache": {
            "verl": _verl(_ROLLOUT + "enable_prefix_caching", since=(0, 6, 0)),
            "slime": _plain("--sglang-disable-radix-cache"),
            "openrlhf": _openrlhf(("enable_prefix_caching", "vllm.enable_prefix_caching")),
            "areal": (
                Key("sglang.disable_radix_cache"),
                Key("vllm.no_enable_prefix_caching", since=(0, 5, 3)),
            ),
            "skyrl": _skyrl(
                _ENGINE + "enable_prefix_caching", before=("generator.enable_prefix_caching",)
            ),
            "prime_rl": _prime(
                "inference.vllm.enable_prefix_caching", before=("inference.enable_prefix_caching",)
            ),
        },
        "engine.quantisation": {
            "verl": _verl(_ROLLOUT + "quantization", since=(0, 7, 0)),
            "nemo_rl": _plain(_VLLM + "precision"),
            "prime_rl": (Key("inference.vllm.quantization", since=(0, 8, 1)),),
        },
        "engine.disaggregation": {
            "verl": _verl(_ROLLOUT + "disaggregation.enabled", since=(0, 8, 0)),
            "skyrl": (Key(_ENGINE + "enable_pd", since=(0, 5)),),
            "prime_rl": _prime("inference.deployment.type"),
        },
        "engine.log": {
            "verl": _verl(_ROLLOUT + "disable_log_stats"),
            "areal": _plain("sglang.enable_metrics"),
            "nemo_rl": (Key(_VLLM + "enable_vllm_metrics_logger", since=(0, 5)),),
            "skyrl": (Key(_ENGINE + "enable_ray_prometheus_stats", since=(0, 5)),),
        },
        "prompt.cap": {
            "verl": _verl("data.max_prompt_length"),
            "slime": _plain("--rollout-max-prompt-len"),
            "nemo_rl": _plain("data.max_input_seq_length"),
            "areal": _plain("train_dataset.max_length"),
            "trl": (Key("max_prompt_length", until=(1, 0)),),
            "skyrl": _plain("trainer.max_prompt_length"),
            "roll": _plain("prompt_length"),
        },
        "response.cap": {
            "verl": _verl("data.max_response_length"),
            "slime": _plain("--rollout-max-response-len"),
            "openrlhf": (
                Key("--max_new_tokens", since=(0, 9, 9), until=(0, 10, 2)),
                *_openrlhf((None, "rollout.max_new_tokens")),
            ),
            "nemo_rl": _plain("policy.generation.max_new_tokens"),
            "areal": _plain("gconfig.max_new_tokens"),
            "trl": _plain("max_completion_length"),
            "skyrl": _plain("generator.sampling_params.max_generate_length"),
            "roll": _plain("response_length"),
            "prime_rl": _prime("orchestrator.train.sampling.max_completion_tokens"),
        },
        "overlong": {
            "slime": _plain("--dynamic-sampling-filter-path"),
            "openrlhf": _openrlhf(
                ("overlong_buffer_len", "reward.overlong_buffer_len"),
                ("overlong_penalty_factor", "reward.overlong_penalty_factor"),
            ),
            "nemo_rl": (Key("grpo.overlong_filtering", since=(0, 4)),),
            "areal": _plain("actor.overlong_reward_penalty"),
            "trl": _plain("mask_truncated_completions"),
            "skyrl": _plain("generator.apply_overlong_filtering"),
            "roll": _plain("max_len_mask"),
        },
        "filter": {
            "verl": _verl("algorithm.filter_groups.enable", since=(0, 9, 0)),
            "slime": _plain("--dynamic-sampling-filter-path", "--over-sampling-batch-size"),
            "openrlhf": _openrlhf(("dynamic_filtering", "algo.dynamic_filtering_enable")),
            "nemo_rl": (
                Key("grpo.use_dynamic_sampling", since=(0, 4)),
                Key("grpo.dynamic_sampling_max_gen_batches", since=(0, 4)),
            ),
            "skyrl": _plain("trainer.algorithm.dynamic_sampling.type"),
            "roll": _plain("is_use_additional_prompts", "max_additional_running_prompts"),
            "prime_rl": (Key("orchestrator.train.filter_zero_advantages", since=(0, 8, 1)),),
        },
        "agent.workers": {
            "verl": _verl(_ROLLOUT + "agent.num_workers"),
            "skyrl": _plain("environment.skyrl_gym.max_env_workers"),
            "nemo_rl": _plain("env.math.num_workers"),
        },
        "reward.workers": {
            "verl": _verl("reward.num_workers", since=(0, 7, 1)),
            "openrlhf": _openrlhf(
                ("reward_num_nodes", "reward.num_nodes"),
                ("reward_num_gpus_per_node", "reward.num_gpus_per_node"),
            ),
            "nemo_rl": _plain("env.math.num_workers"),
            "slime": _plain("--rm-url"),
        },
        "partial_rollout": {
            "verl": _verl("async_training.partial_rollout", modes=_FULLY_ASYNC),
            "slime": _plain("--partial-rollout", "--over-sampling-batch-size"),
            "openrlhf": (
                Key("--partial_rollout", since=(0, 9, 9), until=(0, 10, 2)),
                *_openrlhf((None, "train.partial_rollout_enable")),
            ),
            "nemo_rl": (Key("grpo.async_grpo.in_flight_weight_updates", since=(0, 5)),),
        },
        "async.mode": {
            "verl": _verl("trainer.v1.trainer_mode", since=(0, 9, 0)),
            "openrlhf": _openrlhf(("async_train", "train.async_enable")),
            "nemo_rl": (Key("grpo.async_grpo.enabled", since=(0, 4)),),
            "areal": _plain("rollout.max_head_offpolicyness"),
            "skyrl": (Key("trainer.fully_async.enabled", since=(0, 5)),),
            "roll": _plain("async_generation_ratio"),
        },
        "async.trigger": {
            "verl": (
                *_verl("async_training.trigger_parameter_sync_step", modes=_FULLY_ASYNC),
                *_verl(
                    "trainer.v1.separate_async.parameter_sync_step",
                    since=(0, 9, 0),
                    modes=_V1_ASYNC,
                ),
            ),
            "slime": _plain("--update-weights-interval"),
            "openrlhf": _openrlhf(("async_queue_size", "train.async_queue_size")),
            "trl": (Key("weight_sync_steps", since=(1, 0)), Key("queue_maxsize", since=(1, 0))),
            "skyrl": (Key("trainer.fully_async.num_parallel_generation_workers", since=(0, 4)),),
            "areal": _plain("rollout.max_concurrent_rollouts", "rollout.queue_size"),
            "roll": _plain("async_generation_ratio"),
            "prime_rl": _prime("orchestrator.max_off_policy_steps"),
            "nemo_rl": (Key("grpo.async_grpo.max_trajectory_age_steps", since=(0, 4)),),
        },
        "staleness.bound": {
            "verl": (
                *_verl("async_training.staleness_threshold", modes=_FULLY_ASYNC),
                *_verl(
                    "trainer.v1.sampler.max_off_policy_threshold", since=(0, 9, 0), modes=_V1_ASYNC
                ),
            ),
            "openrlhf": _openrlhf(("async_queue_size", "train.async_queue_size")),
            "nemo_rl": (Key("grpo.async_grpo.max_trajectory_age_steps", since=(0, 4)),),
            "areal": _plain("rollout.max_head_offpolicyness"),
            "trl": (Key("max_staleness", since=(1, 0)),),
            "skyrl": (Key("trainer.fully_async.max_staleness_steps", since=(0, 4)),),
            "roll": _plain("async_generation_ratio"),
            "prime_rl": _prime("orchestrator.max_off_policy_steps"),
        },
        "pools": {
            "verl": (
                *_verl("rollout.nnodes", "trainer.nnodes", modes=_OWN_POOLS),
                *_verl(_ROLLOUT + "nnodes", "trainer.nnodes", since=(0, 7, 1), modes=_V1_ASYNC),
            ),
            "slime": _plain("--rollout-num-gpus", "--actor-num-nodes", "--actor-num-gpus-per-node"),
            "openrlhf": _openrlhf(
                ("vllm_num_engines", "vllm.num_engines"), ("actor_num_nodes", "actor.num_nodes")
            ),
            "nemo_rl": _plain(
                "policy.generation.colocated.resources.num_nodes",
                "policy.generation.colocated.resources.gpus_per_node",
            ),
            "skyrl": _skyrl(
                _ENGINE + "num_engines",
                "trainer.placement.policy_num_nodes",
                before=("generator.num_inference_engines",),
            ),
            "areal": (
                Key("allocation_mode", until=(1, 0, 2)),
                Key("rollout.backend", since=(1, 0, 2)),
                Key("actor.backend", since=(1, 0, 2)),
            ),
            "roll": _plain("actor_infer.device_mapping", "actor_train.device_mapping"),
            "prime_rl": _prime("deployment.num_train_gpus", "deployment.num_infer_gpus"),
        },
        "logprob.batch": {
            "verl": _verl(
                _ROLLOUT + "log_prob_micro_batch_size_per_gpu",
                "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
                _ROLLOUT + "log_prob_use_dynamic_bsz",
            ),
            "slime": _plain("--log-probs-max-tokens-per-gpu"),
            "openrlhf": _openrlhf(
                ("rollout_max_tokens_per_gpu", "rollout.max_tokens_per_gpu"),
                ("micro_rollout_batch_size", "rollout.micro_batch_size"),
            ),
            "nemo_rl": _plain(
                "policy.logprob_batch_size", "policy.sequence_packing.logprob_mb_tokens"
            ),
            "areal": _plain("ref.mb_spec.max_tokens_per_mb"),
            "skyrl": _plain("trainer.micro_forward_batch_size_per_gpu"),
            "roll": _plain(
                "reference.infer_batch_size", "actor_train.use_dynamic_batching_in_infer"
            ),
        },
        "ref.offload": {
            "verl": _verl("actor_rollout_ref.ref.fsdp_config.param_offload"),
            "openrlhf": _openrlhf(("ref_reward_offload", "ref.offload")),
            "skyrl": _plain("trainer.ref.fsdp_config.cpu_offload"),
            "areal": _plain("ref.fsdp.offload_params"),
        },
        "logprob.engine": {
            "verl": (
                *_verl(_ROLLOUT + "calculate_log_probs"),
                *_verl("algorithm.rollout_correction.bypass_mode", since=(0, 6, 1)),
            ),
            "slime": _plain("--use-rollout-logprobs"),
            "areal": _plain("actor.recompute_logprob", "actor.use_decoupled_loss"),
            "roll": _plain("enable_old_logprobs_recompute"),
        },
        "update.batch": {
            "verl": _verl(_ACTOR + "use_dynamic_bsz", _ACTOR + "ppo_max_token_len_per_gpu"),
            "slime": _plain("--use-dynamic-batch-size", "--max-tokens-per-gpu"),
            "openrlhf": _openrlhf(
                ("use_dynamic_batch", "train.dynamic_batch_enable"),
                ("train_max_tokens_per_gpu", "train.max_tokens_per_gpu"),
            ),
            "nemo_rl": _plain(
                "policy.train_micro_batch_size",
                "policy.dynamic_batching.enabled",
                "policy.sequence_packing.train_mb_tokens",
            ),
            "areal": _plain("actor.mb_spec.max_tokens_per_mb"),
            "trl": _plain("per_device_train_batch_size", "gradient_accumulation_steps"),
            "skyrl": _plain("trainer.micro_train_batch_size_per_gpu"),
            "roll": _plain(
                "actor_train.use_dynamic_batching_in_train",
                "actor_train.max_tokens_per_microbatch_in_train",
            ),
            "prime_rl": _prime("trainer.model.seq_len"),
        },
        "update.packing": {
            "verl": _verl("actor_rollout_ref.model.use_remove_padding"),
            "openrlhf": _openrlhf(("packing_samples", "ds.packing_samples")),
            "nemo_rl": _plain("policy.sequence_packing.enabled"),
            "areal": _plain("actor.pad_to_maximum"),
            "skyrl": (Key("trainer.remove_microbatch_padding", since=(0, 5)),),
            "roll": _plain("actor_train.use_sequence_packing"),
        },
        "update.offload": {
            "verl": _verl(
                _ACTOR + "fsdp_config.param_offload", _ACTOR + "fsdp_config.optimizer_offload"
            ),
            "slime": _plain("--offload-train"),
            "openrlhf": _openrlhf(("adam_offload", "ds.adam_offload")),
            "nemo_rl": _plain("policy.dtensor_cfg.cpu_offload"),
            "areal": _plain("actor.fsdp.offload_params"),
            "skyrl": _plain(
                "trainer.policy.fsdp_config.cpu_offload",
                "trainer.policy.optimizer_config.offload_after_step",
            ),
            "roll": (Key("is_offload_states", since=(0, 3)),),
            "prime_rl": _prime("trainer.model.fsdp_cpu_offload", "trainer.model.optim_cpu_offload"),
        },
        "update.parallel": {
            "verl": _verl(_ACTOR + "ulysses_sequence_parallel_size"),
            "openrlhf": _openrlhf(
                ("ds_tensor_parallel_size", "ds.tensor_parallel_size"),
                ("ring_attn_size", "ds.ring_attn_size"),
            ),
            "nemo_rl": _plain(
                "policy.dtensor_cfg.tensor_parallel_size",
                "policy.dtensor_cfg.context_parallel_size",
                "policy.megatron_cfg.pipeline_model_parallel_size",
            ),
            "skyrl": _plain(
                "trainer.policy.sequence_parallel_size",
                "trainer.policy.megatron_config.pipeline_model_parallel_size",
            ),
            "roll": _plain(
                "actor_train.strategy_args.strategy_config.tensor_model_parallel_size",
                "actor_train.strategy_args.strategy_config.pipeline_model_parallel_size",
            ),
            "prime_rl": _prime("trainer.model.cp", "trainer.model.ep"),
        },
        "update.balance": {
            "verl": _verl("trainer.balance_batch"),
            "slime": _plain("--balance-data"),
            "openrlhf": _openrlhf(("use_dynamic_batch", "train.dynamic_batch_enable")),
            "nemo_rl": _plain("policy.sequence_packing.algorithm"),
            "areal": (Key("actor.mb_spec.packing_algorithm", since=(1, 0, 4)),),
            "roll": _plain("balance_length"),
        },
        "update.epochs": {
            "verl": _verl(_ACTOR + "ppo_epochs", "data.train_batch_size"),
            "slime": _plain("--num-steps-per-rollout", "--rollout-batch-size"),
            "openrlhf": _openrlhf(
                ("max_epochs", "train.max_epochs"), ("rollout_batch_size", "rollout.batch_size")
            ),
            "nemo_rl": _plain("grpo.num_prompts_per_step"),
            "areal": _plain("actor.ppo_n_minibatches", "train_dataset.batch_size"),
            "trl": _plain("num_iterations"),
            "skyrl": _plain("trainer.update_epochs_per_batch", "trainer.train_batch_size"),
            "roll": _plain("ppo_epochs", "rollout_batch_size"),
            "prime_rl": _prime("orchestrator.batch_size"),
        },
        "gpus": {
            "verl": _verl("trainer.nnodes", "trainer.n_gpus_per_node"),
            "slime": _plain("--actor-num-nodes", "--actor-num-gpus-per-node"),
            "openrlhf": _openrlhf(("actor_num_nodes", "actor.num_nodes")),
            "nemo_rl": _plain("cluster.num_nodes", "cluster.gpus_per_node"),
            "areal": _plain("cluster.n_nodes", "cluster.n_gpus_per_node"),
            "skyrl": _plain("trainer.placement.policy_num_nodes"),
            "roll": _plain("actor_train.device_mapping"),
            "prime_rl": _prime("deployment.num_train_gpus"),
        },
        "critic.batch": {
            "verl": _verl(
                "critic.ppo_micro_batch_size_per_gpu",
                "critic.ppo_max_token_len_per_gpu",
                "critic.use_dynamic_bsz",
            ),
            "areal": _plain("critic.mb_spec.max_tokens_per_mb"),
            "skyrl": _plain("trainer.critic_mini_batch_size"),
            "roll": _plain("critic.training_args.per_device_train_batch_size"),
        },
        "estimator": {
            "verl": _verl("algorithm.adv_estimator"),
            "slime": _plain("--advantage-estimator"),
            "openrlhf": _openrlhf(("advantage_estimator", "algo.advantage.estimator")),
            "skyrl": _plain("trainer.algorithm.advantage_estimator"),
            "roll": _plain("adv_estimator"),
        },
        "sync.method": {
            "verl": _verl(_ROLLOUT + "checkpoint_engine.backend", since=(0, 7, 1)),
            "slime": (Key("--update-weight-transport", since=(0, 3)),),
            "openrlhf": _openrlhf(("vllm_sync_backend", "vllm.sync_backend")),
            "areal": _plain("actor.weight_update_mode"),
            "skyrl": _skyrl(
                _ENGINE + "weight_sync_backend", before=("generator.weight_sync_backend",)
            ),
            "prime_rl": _prime("weight_broadcast.type"),
        },
        "sync.bucket": {
            "verl": _verl(
                _ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes", since=(0, 7, 1)
            ),
            "slime": _plain("--update-weight-buffer-size"),
            "roll": (Key("model_update_buffer_size_mb", since=(0, 2)),),
        },
        "sync.smaller": {
            "slime": (Key("--update-weight-mode", since=(0, 3)),),
            "skyrl": (Key(_ENGINE + "delta_weight_sync", since=(0, 5)),),
            "prime_rl": (Key("weight_broadcast.quantize_in_weight_transfer", since=(0, 8)),),
        },
        "sync.seldom": {
            "slime": _plain("--update-weights-interval"),
            "trl": (Key("weight_sync_steps", since=(1, 0)),),
            "verl": (
                *_verl("async_training.trigger_parameter_sync_step", modes=_FULLY_ASYNC),
                *_verl(
                    "trainer.v1.separate_async.parameter_sync_step",
                    since=(0, 9, 0),
                    modes=_V1_ASYNC,
                ),
            ),
        },
        "sleep": {
            "verl": _verl(_ROLLOUT + "free_cache_engine"),
            "slime": _plain("--offload-rollout", "--colocate"),
            "openrlhf": _openrlhf(("vllm_enable_sleep", "vllm.enable_sleep")),
            "areal": (Key("enable_offload"), Key("vllm.enable_sleep_mode", since=(1, 0))),
            "trl": (Key("vllm_enable_sleep_mode", since=(0, 23)),),
            "nemo_rl": _plain("policy.generation.colocated.enabled"),
            "skyrl": _plain("trainer.placement.colocate_all"),
            "roll": (Key("is_offload_states", since=(0, 3)),),
        },
        "validation": {
            "verl": (
                *_verl("trainer.test_freq"),
                *_verl("data.val_max_samples", since=(0, 6, 1)),
            ),
            "slime": _plain("--eval-interval"),
            "openrlhf": _openrlhf(("eval_steps", "eval.steps")),
            "nemo_rl": _plain("grpo.val_period", "grpo.max_val_samples"),
            "areal": _plain("evaluator.freq_steps"),
            "trl": _plain("eval_steps"),
            "skyrl": _plain("trainer.eval_interval"),
            "roll": _plain("eval_steps"),
            "prime_rl": _prime("orchestrator.eval.interval"),
        },
        "checkpoint": {
            "verl": _verl("trainer.save_freq"),
            "slime": _plain("--save-interval", "--async-save"),
            "openrlhf": _openrlhf(("save_steps", "ckpt.save_steps")),
            "nemo_rl": (
                Key("checkpointing.save_period"),
                Key("policy.megatron_cfg.checkpoint.async_save", since=(0, 8)),
            ),
            "areal": _plain("saver.freq_steps"),
            "trl": _plain("save_steps"),
            "skyrl": _plain("trainer.ckpt_interval"),
            "roll": _plain("save_steps"),
            "prime_rl": _prime("ckpt.interval"),
        },
    }
)

SYSTEMS = ("verl", "slime", "openrlhf", "trl", "nemo_rl", "areal", "skyrl", "roll", "prime_rl")


def normalise_system(system: str | None) -> str | None:
    """Return a framework's name as the table spells it, None when it is unknown."""
    name = (system or "").strip().lower().replace("-", "_").replace(" ", "_")
    return name if name in SYSTEMS else None


@lru_cache(maxsize=4096)
def find_keys(
    knobs: tuple[str, ...], system: str | None, version: str | None, mode: str | None
) -> tuple[str, ...]:
    """Return the keys of several knobs that exist in a framework's version and mode.

    Args:
        knobs: Names of knobs; those that the framework lacks give nothing.
        system: Framework as the run names it. Unknown: no key is named.
        version: As the run reports it; unknown: the newest.
        mode: The run's mode.
    """
    known = normalise_system(system)
    if known is None:
        return ()
    numbers = parse_version(version)
    found = (
        key.name
        for knob in knobs
        for key in KNOBS[knob].get(known, ())
        if key.exists(numbers, mode)
    )
    return tuple(dict.fromkeys(found))


def list_keys(systems: Iterable[str] = SYSTEMS) -> Mapping[str, tuple[Key, ...]]:
    """Return every key of the table by framework, once each."""
    return {
        system: tuple(dict.fromkeys(key for knob in KNOBS.values() for key in knob.get(system, ())))
        for system in systems
    }


def parse_version(version: str | None) -> Version | None:
    """Return a release's numbers, None when they cannot be read."""
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return tuple(int(part or 0) for part in match.groups()) if match else None
