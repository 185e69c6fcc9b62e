"""Canonical stages of a step, their families, and the names other frameworks give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GEN = "gen"
REWARD = "reward"
OLD_LOG_PROB = "old_log_prob"
REF = "ref"
VALUES = "values"
ADV = "adv"
UPDATE_CRITIC = "update_critic"
UPDATE_ACTOR = "update_actor"
UPDATE_WEIGHTS = "update_weights"
SLEEP_WAKE = "sleep_wake"
PREPARE = "prepare"
SAVE_CHECKPOINT = "save_checkpoint"
TESTING = "testing"
TRAINER_WAIT = "trainer_wait"
ROLLOUT_WAIT = "rollout_wait"
UNATTRIBUTED = "unattributed"
# One timer that covers several stages.
MAKE_EXPERIENCE = "make_experience"


@dataclass(frozen=True, slots=True)
class StageKind:
    """What is known about a canonical stage.

    Attributes:
        name: The canonical name.
        label: For people.
        family: The family of `diagnosis.md` the stage is summed into.
        meaning: One sentence for tooltips.
        includes: The stages one compound timer covers.
    """

    name: str
    label: str
    family: str
    meaning: str
    includes: tuple[str, ...] = ()


# In the order in which a step runs them: charts stack them in this order.
STAGE_KINDS: tuple[StageKind, ...] = (
    StageKind(PREPARE, "prepare", "overhead", "Batch preparation on the controller."),
    StageKind(GEN, "gen", "rollout", "The trainer waits while the rollout side makes samples."),
    StageKind(REWARD, "reward", "reward", "Scoring as a separate stage."),
    StageKind(OLD_LOG_PROB, "old log prob", "logprob", "The actor re-reads its own samples."),
    StageKind(REF, "ref", "logprob", "The reference policy reads the samples."),
    StageKind(VALUES, "values", "logprob", "The critic reads the samples."),
    StageKind(ADV, "adv", "overhead", "Advantages are computed on the controller."),
    StageKind(
        MAKE_EXPERIENCE,
        "make experience",
        "logprob",
        "Reward, log probabilities, values and advantages under one timer.",
        includes=(REWARD, OLD_LOG_PROB, REF, VALUES, ADV),
    ),
    StageKind(UPDATE_CRITIC, "update critic", "update", "Forward, backward, optimiser: critic."),
    StageKind(UPDATE_ACTOR, "update actor", "update", "Forward, backward, optimiser: actor."),
    StageKind(SAVE_CHECKPOINT, "checkpoint", "outside", "Saving a checkpoint."),
    StageKind(UPDATE_WEIGHTS, "update weights", "sync", "New weights go to the rollout engines."),
    StageKind(SLEEP_WAKE, "sleep / wake", "sync", "Engines release or take back GPU memory."),
    StageKind(TESTING, "validation", "outside", "Validation rollouts."),
    StageKind(TRAINER_WAIT, "trainer wait", "wait", "The trainer waits for samples (async modes)."),
    StageKind(ROLLOUT_WAIT, "rollout wait", "wait", "The rollout side is held back."),
)
STAGES: Mapping[str, StageKind] = MappingProxyType({kind.name: kind for kind in STAGE_KINDS})
WAIT_STAGES = frozenset({TRAINER_WAIT, ROLLOUT_WAIT})

# Families in the order diagnoses list them.
FAMILIES = ("rollout", "reward", "logprob", "update", "sync", "overhead", "outside", "wait")

# Stages of standard spans that carry no `rl.stage`.
STAGE_OF_SPAN: Mapping[str, str] = MappingProxyType(
    {
        "rl.sample": GEN,
        "rl.reward": REWARD,
        "rl.train": UPDATE_ACTOR,
        "rl.sync": UPDATE_WEIGHTS,
    }
)

SYNC_PHASES = (
    "abort",
    "release_kv",
    "build_group",
    "transfer",
    "finalize",
    "resume_kv",
    "resume",
)

# Other spellings of a stage: value of `rl.stage`, span name (its last segment too), or timer key.
# Sources: shared facts on frameworks, section 2.1, and verl's timers.
STAGE_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        # verl
        "generate_sequences": GEN,
        "rollout": GEN,
        "generate": GEN,
        "generation": GEN,
        "gen_max": GEN,
        "compute_score": REWARD,
        "reward_calculation": REWARD,
        "rewards": REWARD,
        "_calculate_rewards": REWARD,
        "verify": REWARD,
        "actor_compute_log_prob": OLD_LOG_PROB,
        "compute_log_prob": OLD_LOG_PROB,
        "log_probs": OLD_LOG_PROB,
        "old_log_probs": OLD_LOG_PROB,
        "recompute_logp": OLD_LOG_PROB,
        "old_log_probs_and_values": OLD_LOG_PROB,
        "policy_and_reference_logprobs": OLD_LOG_PROB,
        "cal_old_log_probs_values": OLD_LOG_PROB,
        "fwd_logprobs_values_reward": OLD_LOG_PROB,
        "ref_log_prob": REF,
        "ref_log_probs": REF,
        "ref_compute_log_prob": REF,
        "ref_logp": REF,
        "cal_ref_log_probs": REF,
        "teacher_log_probs": REF,
        "teacher_logp": REF,
        "teacher_logprob_inference": REF,
        "ref_model_update": REF,
        "update_ref_with_policy": REF,
        "compute_values": VALUES,
        "critic_values": VALUES,
        "value_inference": VALUES,
        "advantage": ADV,
        "compute_advantage": ADV,
        "advantage_calculation": ADV,
        "compute_advantages_and_returns": ADV,
        "apply_reward_kl_penalty": ADV,
        "cal_response_norm_rewards": ADV,
        "cal_token_reward": ADV,
        "compute_token_reward": ADV,
        "get_token_reward": ADV,
        "reward_postprocess": ADV,
        "critic_train": UPDATE_CRITIC,
        "critic_train_step": UPDATE_CRITIC,
        "value_training": UPDATE_CRITIC,
        "actor_update": UPDATE_ACTOR,
        "actor_train": UPDATE_ACTOR,
        "train": UPDATE_ACTOR,
        "train_step": UPDATE_ACTOR,
        "policy_train": UPDATE_ACTOR,
        "policy_training": UPDATE_ACTOR,
        "ppo_train": UPDATE_ACTOR,
        "train_critic_and_policy": UPDATE_ACTOR,
        "forward_backward": UPDATE_ACTOR,
        "param_sync": UPDATE_WEIGHTS,
        "sync_rollout_weights": UPDATE_WEIGHTS,
        "sync_weights": UPDATE_WEIGHTS,
        "weight_sync": UPDATE_WEIGHTS,
        "model_update": UPDATE_WEIGHTS,
        "broadcast": UPDATE_WEIGHTS,
        "broadcast_weights": UPDATE_WEIGHTS,
        "transfer_and_update_weights": UPDATE_WEIGHTS,
        "reshard": SLEEP_WAKE,
        "sleep": SLEEP_WAKE,
        "wake_up": SLEEP_WAKE,
        "switch_to_trainer": SLEEP_WAKE,
        "switch_to_rollout": SLEEP_WAKE,
        "stop_server": SLEEP_WAKE,
        "shrink_sampler": SLEEP_WAKE,
        "prepare_for_generation": SLEEP_WAKE,
        "offload_before_refit": SLEEP_WAKE,
        "policy_offload_after_refit": SLEEP_WAKE,
        "recompute_kv_scales": SLEEP_WAKE,
        "data_preprocess": PREPARE,
        "data_processing": PREPARE,
        "balance_batch": PREPARE,
        "dump_rollout_generations": PREPARE,
        "buffer_sampling": PREPARE,
        "dynamic_sampling": PREPARE,
        "logprob_inference_prep": PREPARE,
        "teacher_logprob_inference_prep": PREPARE,
        "training_prep": PREPARE,
        "value_training_prep": PREPARE,
        "overlong_filter": PREPARE,
        "mask_sample_filter": PREPARE,
        "postprocess_generator_output": PREPARE,
        "convert_to_training_input": PREPARE,
        "load_data": PREPARE,
        "clear_batches": PREPARE,
        "get_sample_level_mask": PREPARE,
        "cal_response_level_mask": PREPARE,
        "compute_data_metrics": PREPARE,
        "checkpointing": SAVE_CHECKPOINT,
        "save_model": SAVE_CHECKPOINT,
        "save_checkpoints": SAVE_CHECKPOINT,
        "save_ckpt": SAVE_CHECKPOINT,
        "save_hf_model": SAVE_CHECKPOINT,
        "cleanup_old_checkpoints": SAVE_CHECKPOINT,
        "checkpoint_for_recover": SAVE_CHECKPOINT,
        "validation": TESTING,
        "val_step": TESTING,
        "val": TESTING,
        "total_validation_time": TESTING,
        "eval": TESTING,
        "wait_for_enough_samples": TRAINER_WAIT,
        "wait_for_generation_buffer": TRAINER_WAIT,
        "wait_for_batch": TRAINER_WAIT,
        "switch_wait": TRAINER_WAIT,
        "wait_prev_gen": TRAINER_WAIT,
        "exposed_generation": TRAINER_WAIT,
        "train_wait": TRAINER_WAIT,
        "trainer_waiting_for_data": TRAINER_WAIT,
        "trainer_idle_waiting_for_inference": TRAINER_WAIT,
        "wait_for_policy": ROLLOUT_WAIT,
    }
)


def stage_of(name: str) -> str | None:
    """Return the canonical stage that a stage, span or timer name means, or None if unknown."""
    if name in STAGES:
        return name
    if name in STAGE_OF_SPAN:
        return STAGE_OF_SPAN[name]
    tail = name.rsplit("/", 1)[-1].rsplit(".", 1)[-1]
    if tail in STAGES:
        return tail
    return STAGE_ALIASES.get(name) or STAGE_ALIASES.get(tail)
