"""What trainers elsewhere log of a step: names, units and nesting as each framework writes them."""

import statistics
from collections.abc import Callable, Mapping

from support.elsewhere_world import StepLived, World

Scalars = dict[str, float]
LOGPROB = ("old_log_prob", "ref")


def canonical_timers(step: StepLived) -> Scalars:
    found = {f"timing_s/{name}": step.seconds(name) for name in step.stages}
    for name, (start, end) in step.outside.items():
        found[f"timing_s/{name}"] = end - start
    return {**found, "timing_s/step": step.duration_s}


def verl(step: StepLived) -> Scalars:
    found = canonical_timers(step)
    found["perf/time_per_step"] = step.duration_s
    if "trainer_wait" in step.stages:
        found["timing_s/gen"] = found.pop("timing_s/trainer_wait")
    return found


def slime(step: StepLived) -> Scalars:
    seconds = step.seconds
    trains = ("old_log_prob", "ref", "update_actor", "update_critic", "prepare")
    train_s = sum(map(seconds, trains))
    found = {
        "perf/rollout_time": seconds("gen"),
        "perf/train_wait_time": step.duration_s - train_s,
        "perf/train_time": train_s,
        "perf/step_time": step.duration_s,
        "perf/actor_train_time": seconds("update_actor"),
        "perf/wait_time_ratio": 1 - train_s / step.duration_s,
    }
    for key, stage in (("log_probs", "old_log_prob"), ("ref_log_probs", "ref")):
        if stage in step.stages:
            found[f"perf/{key}_time"] = seconds(stage)
    if "update_weights" in step.stages:
        found["perf/update_weights_time"] = seconds("update_weights")
    if "sleep_wake" in step.stages:
        found["perf/sleep_time"] = seconds("sleep_wake") * 0.4
        found["perf/wake_up_time"] = seconds("sleep_wake") * 0.6
    return found


def openrlhf(step: StepLived) -> Scalars:
    seconds = step.seconds
    made = sum(map(seconds, ("reward", "old_log_prob", "ref", "values", "adv")))
    found = {
        "timing/generation": seconds("gen"),
        "timing/make_experience": made,
        "timing/ppo_train": seconds("update_actor") + seconds("update_critic"),
        "timing/broadcast": seconds("update_weights"),
    }
    return {**found, "timing/step_total": sum(found.values())}


def nemo_rl(step: StepLived) -> Scalars:
    prefix = "timing/train/"
    found = {prefix + "total_step_time": step.duration_s}
    names = {
        "gen": "generation",
        "trainer_wait": "exposed_generation",
        "reward": "reward_calculation",
        "adv": "advantage_calculation",
        "update_actor": "policy_training",
        "update_critic": "value_training",
        "values": "value_inference",
        "prepare": "data_processing",
    }
    for stage, key in names.items():
        if stage in step.stages:
            found[prefix + key] = step.seconds(stage)
    both = sum(map(step.seconds, LOGPROB))
    if both:
        found[prefix + "policy_and_reference_logprobs"] = both
    sync, asleep = step.seconds("update_weights"), step.seconds("sleep_wake")
    if sync or asleep:
        found[prefix + "prepare_for_generation/total"] = sync + asleep
        found[prefix + "prepare_for_generation/transfer_and_update_weights"] = sync
    found[prefix + "valid_tokens_per_sec_per_gpu"] = 812.5
    if "save_checkpoint" in step.outside:
        start, end = step.outside["save_checkpoint"]
        found[prefix + "checkpointing"] = end - start
    return found


def areal(step: StepLived) -> Scalars:
    names = {
        "gen": "rollout",
        "trainer_wait": "rollout",
        "old_log_prob": "recompute_logp",
        "ref": "ref_logp",
        "values": "critic_values",
        "adv": "compute_advantage",
        "update_actor": "train_step",
        "update_critic": "critic_train_step",
        "update_weights": "update_weights",
    }
    return {
        f"timeperf/{names[stage]}": step.seconds(stage) for stage in step.stages if stage in names
    }


def skyrl(step: StepLived) -> Scalars:
    seconds = step.seconds
    trained = seconds("update_actor") + seconds("update_critic")
    found = {
        "timing/step": step.duration_s,
        "timing/fwd_logprobs_values_reward": sum(map(seconds, (*LOGPROB, "values", "reward"))),
        "timing/compute_advantages_and_returns": seconds("adv"),
        "timing/train_critic_and_policy": trained * 1.001,
        "timing/policy_train": seconds("update_actor"),
        "timing/sync_weights": seconds("update_weights"),
    }
    wait = "timing/wait_for_generation_buffer"
    if "trainer_wait" in step.stages:
        found[wait] = seconds("trainer_wait")
    else:
        found["timing/generate"] = seconds("gen")
    if "update_critic" in step.stages:
        found["timing/critic_train"] = seconds("update_critic")
    return found


def prime_rl(step: StepLived) -> Scalars:
    return {
        "time/step": step.duration_s,
        "time/wait_for_batch": step.seconds("trainer_wait") + step.seconds("gen"),
        "time/load_data": 0.01,
        "time/forward_backward": step.seconds("update_actor"),
        "time/broadcast_weights": step.seconds("update_weights"),
    }


FULL = frozenset({"gen", "reward", "adv", "prepare", "update_actor", "update_critic", "values"})
TIMERS: Mapping[str, Callable[[StepLived], Scalars]] = {
    "verl": verl,
    "slime": slime,
    "openrlhf": openrlhf,
    "nemo_rl": nemo_rl,
    "areal": areal,
    "skyrl": skyrl,
    "prime_rl": prime_rl,
}
# Stages that a framework tells apart; what it cannot tell would make another run of it.
TELLS: Mapping[str, frozenset[str]] = {
    "verl": FULL | {"old_log_prob", "ref", "update_weights", "testing", "save_checkpoint"},
    "slime": frozenset(
        {"gen", "old_log_prob", "ref", "update_actor", "update_weights", "sleep_wake", "prepare"}
    ),
    "nemo_rl": FULL | {"old_log_prob", "ref", "update_weights", "sleep_wake", "trainer_wait"},
    "skyrl": frozenset(
        {"gen", "adv", "update_actor", "update_critic", "update_weights", "trainer_wait"}
        | {"old_log_prob", "ref"}
    ),
    "openrlhf": frozenset(
        {"gen", "old_log_prob", "ref", "adv", "update_actor", "update_weights", "values"}
    ),
    "prime_rl": frozenset({"trainer_wait", "update_actor", "update_weights"}),
}


def tells_all(system: str, step: StepLived) -> bool:
    known = TELLS.get(system)
    return known is not None and known.issuperset({*step.stages, *step.outside})


def figures(world: World, step: StepLived) -> Scalars:
    """Return tokens, lengths and the MFU under the framework's names."""
    match world.system:
        case "verl":
            return _verl_figures(world, step)
        case "prime_rl":
            return _prime_figures(world, step)
        case "nemo_rl":
            found: Scalars = {}
            _put(found, "performance/train_fp_utilization", world.mfu)
            _put(found, "train/total_num_tokens", step.tokens or None)
            return found
        case _:
            found = {}
            _put(found, "mfu_actor", world.mfu)
            _put(found, "tokens_total", step.tokens or None)
            if step.samples:
                found["response_length_mean"] = statistics.fmean(
                    sample.output for sample in step.samples
                )
            return found


def _verl_figures(world: World, step: StepLived) -> Scalars:
    found: Scalars = {}
    _put(found, "perf/mfu/actor", world.mfu)
    if not step.tokens:
        return found
    outputs = [sample.output for sample in step.samples]
    found["perf/total_num_tokens"] = step.tokens
    found["perf/throughput"] = step.tokens / step.duration_s / world.gpus
    found["response_length/mean"] = statistics.fmean(outputs)
    found["response_length/max"] = max(outputs)
    if world.dp_ratio is not None:
        mean = step.tokens / max(1, world.gpus // 2)
        found["global_seqlen/mean"] = mean
        found["global_seqlen/balanced_max"] = mean * world.dp_ratio
    return found


def _prime_figures(world: World, step: StepLived) -> Scalars:
    found: Scalars = {}
    _put(found, "perf/mfu", None if world.mfu is None else 100 * world.mfu)
    if step.tokens:
        # While it trains, of all GPUs, and of one.
        rate = 3.1 * step.tokens / step.duration_s
        found |= {"progress/tokens": step.tokens, "perf/throughput": rate}
        found["perf/throughput_per_gpu"] = rate / world.gpus
    return found


def _put(found: Scalars, name: str, value: float | None) -> None:
    if value is not None:
        found[name] = value
