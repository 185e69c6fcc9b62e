"""What frameworks' stage timers mean: which stage, what contains what, inside the step or not.

Every framework logs flat scalars, with nested and overlapping timers among them. A `Scheme` says
for one framework which timers exist and how they nest, so that no second is counted twice. Which
scheme a step follows is decided by the keys that are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from longpole.conventions import stages

Placement = Literal["inside", "outside", "by_sum", "if_room"]
"""Where a timer stands towards the step.

`by_sum`: inside when the disjoint stages with it still fit into the step, else outside (changed
between versions). `if_room`: counted when it fits, else it overlaps or is nested and is dropped.
"""


@dataclass(frozen=True, slots=True)
class Timer:
    """One timer of a framework.

    Attributes:
        stage: Canonical stage; None for a container whose rest nobody can name.
        includes: Stages that the one timer covers.
        within: Key of the timer that contains it.
    """

    stage: str | None
    includes: tuple[str, ...] = ()
    within: str | None = None
    placement: Placement = "inside"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The timers of one framework, by full scalar name.

    Attributes:
        prefix: What all its timers start with.
        step_keys: Scalars that hold the seconds of the whole step, most trusted first.
        nested: Prefixes of scalars that lie inside other timers or are no times at all.
    """

    name: str
    prefix: str
    step_keys: tuple[str, ...]
    timers: Mapping[str, Timer]
    nested: tuple[str, ...] = field(default=())

    def ignores(self, key: str) -> bool:
        """Return whether a scalar under the prefix is known not to be a stage."""
        return key in self.step_keys or key.startswith(self.nested)


def _timers(prefix: str, timers: Mapping[str, Timer]) -> dict[str, Timer]:
    """Prefix the names and the containers of a table."""
    return {
        prefix + name: Timer(
            timer.stage,
            timer.includes,
            None if timer.within is None else prefix + timer.within,
            timer.placement,
        )
        for name, timer in timers.items()
    }


_GEN = Timer(stages.GEN)
_PREPARE = Timer(stages.PREPARE)
_ADV = Timer(stages.ADV)
_SLEEP_WAKE = Timer(stages.SLEEP_WAKE)
_SYNC = Timer(stages.UPDATE_WEIGHTS)
_WAIT = Timer(stages.TRAINER_WAIT)
_TESTING = Timer(stages.TESTING, placement="by_sum")
_CHECKPOINT = Timer(stages.SAVE_CHECKPOINT, placement="by_sum")
_TESTING_OUTSIDE = Timer(stages.TESTING, placement="outside")
_CHECKPOINT_OUTSIDE = Timer(stages.SAVE_CHECKPOINT, placement="outside")
_SAME_NAME: dict[str, Timer] = {
    name: Timer(name)
    for name in (
        stages.GEN,
        stages.REWARD,
        stages.OLD_LOG_PROB,
        stages.REF,
        stages.VALUES,
        stages.ADV,
        stages.UPDATE_CRITIC,
        stages.UPDATE_ACTOR,
    )
}

VERL = Scheme(
    "verl",
    "timing_s/",
    ("timing_s/step", "perf/time_per_step"),
    _timers(
        "timing_s/",
        _SAME_NAME
        | {
            "gen_max": _GEN,
            "update_weights": Timer(stages.UPDATE_WEIGHTS, within="sync_rollout_weights"),
            "sync_rollout_weights": _SYNC,
            # fully_async logs this key with the prefix twice.
            "timing_s/param_sync": _SYNC,
            "param_sync": _SYNC,
            "wait_for_enough_samples": Timer(stages.TRAINER_WAIT, placement="if_room"),
            "switch_wait": _WAIT,
            # one_step_off before its `gen` was that wait.
            "wait_prev_gen": _WAIT,
            # The PRIME recipe scores by rules, then trains its reward model under `reward`.
            "verify": Timer(stages.REWARD),
            "switch_to_trainer": _SLEEP_WAKE,
            "switch_to_rollout": _SLEEP_WAKE,
            "dump_rollout_generations": _PREPARE,
            "save_checkpoint": _CHECKPOINT,
            "testing": _TESTING,
        },
    ),
    nested=(
        "timing_s/agent_loop/",
        "timing_s/generation_timing/",
        "timing_s/generate_sequences",
        "timing_s/generate_async",
        "timing_s/reshard",
        "timing_s/start_profile",
        "timing_s/stop_profile",
    ),
)

VERL_FIRST = Scheme(
    "verl (first versions)",
    "timing/",
    ("timing/step",),
    _timers("timing/", _SAME_NAME | {"save_checkpoint": _CHECKPOINT, "testing": _TESTING}),
)

OPENRLHF = Scheme(
    "openrlhf",
    "timing/",
    ("timing/step_total",),
    _timers(
        "timing/",
        {
            # Overlaps the training when asynchronous.
            "generation": Timer(stages.GEN, placement="if_room"),
            "make_experience": Timer(
                stages.MAKE_EXPERIENCE, stages.STAGES[stages.MAKE_EXPERIENCE].includes
            ),
            "ppo_train": Timer(stages.UPDATE_ACTOR, (stages.UPDATE_CRITIC, stages.UPDATE_ACTOR)),
            "broadcast": _SYNC,
        },
    ),
)

NEMO_RL = Scheme(
    "nemo_rl",
    "timing/train/",
    ("timing/train/total_step_time",),
    _timers(
        "timing/train/",
        {
            "generation": _GEN,
            "exposed_generation": _WAIT,
            "reward_calculation": Timer(stages.REWARD),
            "policy_and_reference_logprobs": Timer(
                stages.OLD_LOG_PROB, (stages.OLD_LOG_PROB, stages.REF)
            ),
            "value_inference": Timer(stages.VALUES),
            "advantage_calculation": _ADV,
            "value_training": Timer(stages.UPDATE_CRITIC),
            "policy_training": Timer(stages.UPDATE_ACTOR),
            "weight_sync": _SYNC,
            "prepare_for_generation/total": _SLEEP_WAKE,
            "prepare_for_generation/transfer_and_update_weights": Timer(
                stages.UPDATE_WEIGHTS, within="prepare_for_generation/total"
            ),
            "offload_before_refit": Timer(stages.SLEEP_WAKE, placement="if_room"),
            "policy_offload_after_refit": Timer(
                stages.SLEEP_WAKE, within="prepare_for_generation/total"
            ),
            "recompute_kv_scales": _SLEEP_WAKE,
            "data_processing": _PREPARE,
            "buffer_sampling": _PREPARE,
            "dynamic_sampling": _PREPARE,
            "logprob_inference_prep": _PREPARE,
            "training_prep": _PREPARE,
            "teacher_logprob_inference": Timer(stages.REF),
            "teacher_logprob_inference_prep": _PREPARE,
            "value_training_prep": _PREPARE,
            "overlong_filter": Timer(stages.PREPARE, within="data_processing"),
            "mask_sample_filter": Timer(stages.PREPARE, within="data_processing"),
            "checkpointing": _CHECKPOINT,
        },
    )
    | {"timing/validation/total_validation_time": _TESTING},
    nested=("timing/train/idle/", "timing/train/valid_tokens_per_sec_per_gpu"),
)

SKYRL = Scheme(
    "skyrl",
    "timing/",
    ("timing/step",),
    _timers(
        "timing/",
        {
            "generate": _GEN,
            "wait_for_generation_buffer": _WAIT,
            "postprocess_generator_output": _PREPARE,
            "convert_to_training_input": _PREPARE,
            "run_training": Timer(None),
            "fwd_logprobs_values_reward": Timer(
                stages.OLD_LOG_PROB,
                (stages.OLD_LOG_PROB, stages.REF, stages.VALUES, stages.REWARD),
                within="run_training",
            ),
            "apply_reward_kl_penalty": Timer(stages.ADV, within="run_training"),
            "compute_advantages_and_returns": Timer(stages.ADV, within="run_training"),
            "train_critic_and_policy": Timer(
                stages.UPDATE_ACTOR,
                (stages.UPDATE_CRITIC, stages.UPDATE_ACTOR),
                within="run_training",
            ),
            "critic_train": Timer(stages.UPDATE_CRITIC, within="train_critic_and_policy"),
            "policy_train": Timer(stages.UPDATE_ACTOR, within="train_critic_and_policy"),
            "update_ref_with_policy": Timer(stages.REF),
            "sync_weights": _SYNC,
            # `timing/step` leaves these out; the synchronous trainer saves in it by now.
            "eval": _TESTING_OUTSIDE,
            "save_checkpoints": _CHECKPOINT,
            "save_hf_model": _CHECKPOINT,
        },
    ),
    # Inside `timing/eval` and `timing/save_checkpoints`.
    nested=("timing/eval_generate", "timing/cleanup_old_checkpoints"),
)

_ROLL_TIMERS: dict[str, Timer] = {
    "step_train": Timer(stages.UPDATE_ACTOR, (stages.UPDATE_CRITIC, stages.UPDATE_ACTOR)),
    "step_model_update": _SYNC,
}

ROLL = Scheme(
    "roll",
    "time/",
    # `time/step_total` is the previous step's and is not used.
    (),
    _timers(
        "time/",
        _ROLL_TIMERS
        | {
            "step_generate": _GEN,
            "ref_log_probs_values": Timer(stages.REF, (stages.REF, stages.VALUES)),
            "old_log_probs": Timer(stages.OLD_LOG_PROB),
            "step_stop_server": _SLEEP_WAKE,
            "val_step": _TESTING,
        },
    ),
    nested=("time/step_total", "time/get_batch_cost_train"),
)

# The agentic pipelines have names of their own, and log the seconds of the very step.
ROLL_AGENTIC = Scheme(
    "roll",
    "time/",
    ("time/step_total",),
    _timers(
        "time/",
        _ROLL_TIMERS
        | {
            "step_rollout": _GEN,
            "step_ref_log_probs_values_reward": Timer(
                stages.REF, (stages.REF, stages.VALUES, stages.REWARD)
            ),
            "step_old_log_probs_values": Timer(
                stages.OLD_LOG_PROB, (stages.OLD_LOG_PROB, stages.VALUES)
            ),
            "step_cal_response_level_mask": _PREPARE,
            "step_cal_norm_rewards": _ADV,
            "step_cal_token_reward": _ADV,
            "step_adv": _ADV,
            "step_shrink": _SLEEP_WAKE,
            "step_compute_data_metrics": _PREPARE,
            "step_log": _PREPARE,
            "step_val": _TESTING,
        },
    ),
    nested=("time/get_batch_cost_",),
)

AREAL = Scheme(
    "areal",
    "timeperf/",
    (),
    _timers(
        "timeperf/",
        {
            "rollout": _GEN,
            "critic_values": Timer(stages.VALUES),
            "ref_logp": Timer(stages.REF),
            "teacher_logp": Timer(stages.REF),
            "recompute_logp": Timer(stages.OLD_LOG_PROB),
            "compute_advantage": _ADV,
            "train_step": Timer(stages.UPDATE_ACTOR),
            "critic_train_step": Timer(stages.UPDATE_CRITIC),
            "update_weights": _SYNC,
            "clear_batches": _PREPARE,
            **{
                f"{role}_{move}": _SLEEP_WAKE
                for role in ("actor", "critic", "ref", "teacher", "rollout")
                for move in ("onload", "offload")
            },
            "rollout_pause": _SLEEP_WAKE,
            "rollout_pause_generation": _SLEEP_WAKE,
            "rollout_continue_generation": _SLEEP_WAKE,
            "rollout_resume": _SLEEP_WAKE,
            # The step is the sum of the others: no timer of the whole exists.
            "save": _CHECKPOINT_OUTSIDE,
            "checkpoint_for_recover": _CHECKPOINT_OUTSIDE,
            "eval": _TESTING_OUTSIDE,
        },
    ),
    nested=("timeperf/rollout_",),
)

PRIME_RL = Scheme(
    "prime_rl",
    "time/",
    ("time/step",),
    _timers(
        "time/",
        {
            "wait_for_batch": _WAIT,
            "load_data": _PREPARE,
            "forward_backward": Timer(stages.UPDATE_ACTOR),
            "broadcast_weights": _SYNC,
            "save_ckpt": _CHECKPOINT,
        },
    ),
    # The orchestrator's own clock.
    nested=("time/wait_for_policy", "time/pack"),
)

OPEN_INSTRUCT = Scheme(
    "open_instruct",
    "time/",
    ("time/total",),
    _timers(
        "time/",
        {
            "trainer_waiting_for_data": _WAIT,
            "trainer_idle_waiting_for_inference": _WAIT,
            "training": Timer(stages.UPDATE_ACTOR),
            # In a thread of its own, beside what the trainer does meanwhile.
            "weight_sync": Timer(stages.UPDATE_WEIGHTS, placement="if_room"),
            "health_check": _PREPARE,
            "saving": _CHECKPOINT,
        },
    ),
    nested=(
        "time/weight_sync_",
        "time/group_generation_",
        "time/generation_waiting_for_trainer",
        "time/generation_idle_waiting_for_trainer",
        # Of the engines, beside the training.
        "time/getting_response",
    ),
)

RLINF = Scheme(
    "rlinf",
    "time/",
    ("time/step",),
    _timers(
        "time/",
        {
            "prepare_data": _PREPARE,
            "generate_rollouts": _GEN,
            "cal_adv_and_returns": _ADV,
            "actor_training": Timer(stages.UPDATE_ACTOR),
            "sync_weights": _SYNC,
            "update_rollout_weights": _SYNC,
            "eval": _TESTING,
        },
    ),
    nested=("time/env/", "time/rollout/", "time/actor/", "time/reward/"),
)

SLIME = Scheme(
    "slime",
    "perf/",
    # The second one is what it was called first.
    ("perf/step_time", "perf/total_train_time"),
    _timers(
        "perf/",
        {
            "train_wait_time": _WAIT,
            "rollout_time": Timer(stages.GEN, within="train_wait_time"),
            "sleep_time": Timer(stages.SLEEP_WAKE, within="train_wait_time"),
            "wake_up_time": Timer(stages.SLEEP_WAKE, within="train_wait_time"),
            "update_weights_time": Timer(stages.UPDATE_WEIGHTS, within="train_wait_time"),
            "train_time": Timer(None),
            "data_preprocess_time": Timer(stages.PREPARE, within="train_time"),
            "log_probs_time": Timer(stages.OLD_LOG_PROB, within="train_time"),
            "ref_log_probs_time": Timer(stages.REF, within="train_time"),
            "teacher_log_probs_time": Timer(stages.REF, within="train_time"),
            "ref_model_update_time": Timer(stages.REF, within="train_time"),
            "actor_train_time": Timer(stages.UPDATE_ACTOR, within="train_time"),
            # Everything beside the training is waiting to slime.
            "save_model_time": Timer(
                stages.SAVE_CHECKPOINT, within="train_wait_time", placement="by_sum"
            ),
        },
    ),
    # The prefix holds much more than timers.
    nested=("perf/",),
)

TRL = Scheme(
    "trl",
    "profiling/",
    ("step_time",),
    _timers(
        "profiling/",
        {
            "_prepare_inputs": Timer(None),
            "vLLM.generate": Timer(stages.GEN, within="_prepare_inputs"),
            "transformers.generate": Timer(stages.GEN, within="_prepare_inputs"),
            "transformers.generate_batch": Timer(stages.GEN, within="_prepare_inputs"),
            "_calculate_rewards": Timer(stages.REWARD, within="_prepare_inputs"),
            "sync_weights": Timer(stages.UPDATE_WEIGHTS, within="_prepare_inputs"),
            "compute_loss": Timer(stages.UPDATE_ACTOR),
        },
    )
    | {
        "queue_wait_time_s": _WAIT,
        "weight_sync_time_s": Timer(stages.UPDATE_WEIGHTS, placement="if_room"),
    },
    nested=("profiling/",),
)

# More specific prefixes first: the first of equals wins.
SCHEMES: tuple[Scheme, ...] = (
    VERL,
    NEMO_RL,
    OPENRLHF,
    SKYRL,
    VERL_FIRST,
    SLIME,
    AREAL,
    PRIME_RL,
    ROLL,
    ROLL_AGENTIC,
    OPEN_INSTRUCT,
    RLINF,
    TRL,
)

_TRL_PREFIX = "profiling/Time taken: "


def canonical_timer_name(key: str) -> str:
    """Return the name under which a table knows a timer: TRL puts the trainer's class into it."""
    if key.startswith(_TRL_PREFIX):
        return "profiling/" + key.removeprefix(_TRL_PREFIX).partition(".")[2]
    return key


def find_scheme(scalars: Mapping[str, float]) -> Scheme | None:
    """Return the scheme that knows most of the timers that are there, None when none does."""
    # Asked several times a step: counted without a Python frame for each name.
    is_there = scalars.__contains__

    def num_known(scheme: Scheme) -> tuple[int, int]:
        return (sum(map(is_there, scheme.timers)), sum(map(is_there, scheme.step_keys)))

    best = max(SCHEMES, key=num_known)
    return best if num_known(best) > (0, 0) else None
