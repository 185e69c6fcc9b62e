"""The scalars a trainer logs for a step, under the names verl 0.9 gives them."""

import heapq
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from longpole.conventions.stages import (
    ADV,
    GEN,
    PREPARE,
    REF,
    SLEEP_WAKE,
    TESTING,
    UPDATE_ACTOR,
    UPDATE_CRITIC,
    VALUES,
)
from longpole_sim.plan import StepPlan, TrajectoryPlan
from longpole_sim.seeding import around, random_for
from longpole_sim.workload import Run

# Stages that verl also reports per token.
_PER_TOKEN = (GEN, REF, VALUES, ADV, UPDATE_CRITIC, UPDATE_ACTOR)
# verl has no timers of its own for these.
_UNTIMED = frozenset({PREPARE, SLEEP_WAKE})
_VALIDATION_PREFIX = "val-core/openai/gsm8k"


def planned_seconds(plan: StepPlan) -> dict[str, float]:
    """Return the seconds of every stage of a step, and of `step` itself, as planned."""
    seconds = {stage.stage: stage.duration_s for stage in plan.stages + plan.between}
    return {**seconds, "step": plan.duration_s}


def step_scalars(
    run: Run, plan: StepPlan, seconds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return everything logged for a step, in verl's order.

    Args:
        run: The run the step belongs to.
        plan: The step.
        seconds: Measured seconds by stage, with `step`; as planned when None.
    """
    measured = seconds if seconds is not None else planned_seconds(plan)
    scalars = {
        **_balance(run, plan),
        **_actor(plan),
        **_critic(plan),
        **_progress(plan),
        **_rewards(plan),
        **_lengths(run, plan),
        **_agent_loop(plan),
        **_timing(plan, measured),
        **_throughput(run, plan, measured),
        **_validation(plan, measured),
    }
    if run.scenario.trainer == "v1":
        scalars = _as_v1(scalars)
    return {**_of_mode(run, plan, scalars), **plan.scalars}


def validation_scalars(accuracy: float) -> dict[str, float]:
    """Return what a validation logs."""
    return {f"{_VALIDATION_PREFIX}/acc/mean@1": accuracy}


def _spread(prefix: str, values: Iterable[float]) -> dict[str, float]:
    known = list(values)
    return {
        f"{prefix}/mean": statistics.fmean(known),
        f"{prefix}/max": max(known),
        f"{prefix}/min": min(known),
    }


def _balance(run: Run, plan: StepPlan) -> dict[str, float]:
    """Token sums per data-parallel rank before and after balancing."""
    lengths = plan.sequence_lengths
    ranks = len(run.cluster.trainer_gpus)
    size = max(1, len(lengths) // ranks)
    chunks = [sum(lengths[start : start + size]) for start in range(0, len(lengths), size)]
    sums = [0] * min(ranks, len(lengths))
    for length in sorted(lengths, reverse=True):
        heapq.heapreplace(sums, sums[0] + length)
    prefix = "global_seqlen"
    return {
        f"{prefix}/min": min(chunks),
        f"{prefix}/max": max(chunks),
        f"{prefix}/minmax_diff": max(chunks) - min(chunks),
        f"{prefix}/balanced_min": min(sums),
        f"{prefix}/balanced_max": max(max(sums), run.scenario.dp_imbalance * sum(lengths) / ranks),
        f"{prefix}/mean": sum(lengths) / ranks,
    }


def _actor(plan: StepPlan) -> dict[str, float]:
    generator = random_for(plan.noise_seed, "actor")
    step = plan.step
    # A mean over tokens; a sequence drifts by a few nats, however long it is.
    length = plan.response_tokens / len(plan.trained)
    memory = {
        "actor/perf/max_memory_allocated_gb": 61.3,
        "actor/perf/max_memory_reserved_gb": 70.5,
        "actor/perf/cpu_memory_used_gb": around(generator, 212.0, 0.003),
    }
    return {
        "actor/entropy": around(generator, 0.32 + 0.30 * 0.99**step, 0.03),
        **_named_mfu(plan, "actor_infer"),
        "actor/pg_loss": generator.gauss(0.0, 0.012),
        "actor/kl_loss": around(generator, (1.6 + 2.6 * (1 - 0.985**step)) / length, 0.06),
        "actor/pg_clipfrac": around(generator, 0.085, 0.12),
        "actor/ppo_kl": abs(generator.gauss(0.0, 4e-4)),
        "actor/pg_clipfrac_lower": 0.0,
        "actor/kl_coef": 0.001,
        "actor/grad_norm": around(generator, 0.24, 0.12),
        **_named_mfu(plan, "actor"),
        **memory,
        "actor/lr": 1e-6,
    }


def _critic(plan: StepPlan) -> dict[str, float]:
    if "critic" not in plan.stage_mfu:
        return {}
    generator = random_for(plan.noise_seed, "critic")
    return {
        "critic/vf_loss": around(generator, 0.05 + 0.1 * 0.98**plan.step, 0.05),
        "critic/vf_clipfrac": around(generator, 0.02, 0.1),
        "critic/vpred_mean": around(generator, 0.45, 0.03),
        "critic/grad_norm": around(generator, 1.9, 0.1),
        "critic/lr": 1e-5,
        "critic/vf_explained_var": around(generator, 0.62, 0.03),
        **_named_mfu(plan, "critic"),
    }


def _named_mfu(plan: StepPlan, role: str) -> dict[str, float]:
    return {f"perf/mfu/{role}": plan.mfu[role]} if role in plan.mfu else {}


def _progress(plan: StepPlan) -> dict[str, float]:
    return {"training/global_step": plan.step, "training/epoch": plan.step // 60}


def _rewards(plan: StepPlan) -> dict[str, float]:
    rewards = [item.reward for item in plan.trained]
    advantages = _advantages(plan.trained)
    scalars: dict[str, float] = {}
    for name, values in (
        ("score", rewards),
        ("rewards", rewards),
        ("advantages", advantages),
        ("returns", advantages),
    ):
        scalars.update(_spread(f"critic/{name}", values))
    return scalars


def _advantages(trajectories: Sequence[TrajectoryPlan]) -> list[float]:
    """Normalise rewards within their group; over the batch where groups have one sample."""
    groups: dict[str, list[float]] = {}
    for item in trajectories:
        groups.setdefault(item.group_id, []).append(item.reward)
    if all(len(group) == 1 for group in groups.values()):
        groups = {"batch": [item.reward for item in trajectories]}
    advantages: list[float] = []
    for rewards in groups.values():
        mean = statistics.fmean(rewards)
        deviation = statistics.fmean([(reward - mean) ** 2 for reward in rewards]) ** 0.5 + 1e-6
        advantages.extend((reward - mean) / deviation for reward in rewards)
    return advantages


def _lengths(run: Run, plan: StepPlan) -> dict[str, float]:
    responses = [item.output_tokens for item in plan.trained]
    prompts = [item.input_tokens for item in plan.trained]
    turns = [2 * item.turns for item in plan.trained]
    response_clip = _share(responses, run.scenario.response.cap)
    scalars = _spread("response_length", responses)
    scalars["response_length/clip_ratio"] = response_clip
    scalars.update(_spread("response_length_non_aborted", responses))
    scalars["response_length_non_aborted/clip_ratio"] = response_clip
    scalars["response/aborted_ratio"] = 0.0
    scalars.update(_spread("prompt_length", prompts))
    scalars["prompt_length/clip_ratio"] = _share(prompts, run.scenario.prompt.cap)
    scalars.update(
        {
            "num_turns/min": min(turns),
            "num_turns/max": max(turns),
            "num_turns/mean": statistics.fmean(turns),
        }
    )
    return scalars


def _share(values: Sequence[int], cap: int) -> float:
    return sum(value >= cap for value in values) / len(values)


def _agent_loop(plan: StepPlan) -> dict[str, float]:
    """Seconds per trajectory as verl's agent loop sums them; all under the prefix `timing_s/`.

    Of all that was generated, before anything is filtered.
    """
    measures: tuple[tuple[str, Callable[[TrajectoryPlan], float]], ...] = (
        ("num_preempted", lambda item: item.preemptions),
        ("generate_sequences", lambda item: item.seconds("generate") + item.seconds("queue")),
        ("tool_calls", lambda item: item.seconds("tool")),
        ("compute_score", lambda item: item.seconds("score")),
    )
    prefix = "timing_s/agent_loop"
    slowest = max(plan.trajectories, key=lambda item: item.duration_s)
    scalars: dict[str, float] = {}
    for name, measure in measures:
        values = [measure(item) for item in plan.trajectories]
        scalars[f"{prefix}/{name}/min"] = min(values)
        scalars[f"{prefix}/{name}/max"] = max(values)
        scalars[f"{prefix}/{name}/mean"] = statistics.fmean(values)
    for name, measure in measures[1:]:
        scalars[f"{prefix}/slowest/{name}"] = measure(slowest)
    scalars[f"{prefix}/slowest/num_preempted"] = slowest.preemptions
    scalars[f"{prefix}/slowest/prompt_length"] = slowest.input_tokens
    scalars[f"{prefix}/slowest/response_length"] = slowest.output_tokens
    return scalars


def _timing(plan: StepPlan, seconds: Mapping[str, float]) -> dict[str, float]:
    tokens = plan.prompt_tokens + plan.response_tokens
    scalars = {f"timing_s/{name}": value for name, value in seconds.items() if name not in _UNTIMED}
    for name in _PER_TOKEN:
        if name in seconds:
            denominator = plan.response_tokens if name == GEN else tokens
            scalars[f"timing_per_token_ms/{name}"] = seconds[name] * 1000.0 / denominator
    return scalars


def _throughput(run: Run, plan: StepPlan, seconds: Mapping[str, float]) -> dict[str, float]:
    tokens = plan.prompt_tokens + plan.response_tokens
    return {
        "perf/total_num_tokens": tokens,
        "perf/time_per_step": seconds["step"],
        "perf/throughput": tokens / (seconds["step"] * run.cluster.gpu_count),
    }


def _validation(plan: StepPlan, seconds: Mapping[str, float]) -> dict[str, float]:
    if TESTING not in seconds or not plan.validation:
        return {}
    return validation_scalars(statistics.fmean(item.reward for item in plan.validation))


def _as_v1(scalars: dict[str, float]) -> dict[str, float]:
    """Return what verl's default trainer logs of it: nothing of the inside of gen."""
    hidden = ("timing_s/agent_loop/", "perf/mfu/actor_infer", "num_turns/")
    kept = {name: value for name, value in scalars.items() if not name.startswith(hidden)}
    for name in ("mean", "max", "min"):
        kept[f"training/num_turns/{name}"] = scalars[f"num_turns/{name}"]
    return kept


def _of_mode(run: Run, plan: StepPlan, scalars: dict[str, float]) -> dict[str, float]:
    """Return the scalars as the trainer of the run's mode spells and completes them."""
    mode = run.scenario.mode
    if mode == "one_step_off":
        return _one_step_off(plan, scalars)
    if mode == "fully_async":
        return _fully_async(run, plan, scalars)
    if mode == "separate_async":
        ready = sum(item.end_s <= 0.0 for item in plan.trajectories)
        return {
            **scalars,
            **_off_policy(plan),
            "separate_async/decision/sampleable_count": ready,
            "separate_async/decision/remaining": len(plan.trajectories) - ready,
        }
    if run.scenario.trainer == "v1":
        return {**scalars, **_off_policy(plan)}
    return scalars


def staleness(plan: StepPlan) -> list[int]:
    """Return how many versions old each training sample's oldest tokens are."""
    return [plan.step - 1 - item.policy_version for item in plan.trained]


def _off_policy(plan: StepPlan) -> dict[str, float]:
    lags = staleness(plan)
    newest = [
        plan.step - 1 - max(item.policy_version, item.policy_version_end or 0)
        for item in plan.trained
    ]
    prefix = "training/off_policy/trajectory_staleness"
    return {
        **_spread(f"{prefix}_worst", lags),
        **_spread(prefix, [max(0, lag) for lag in newest]),
        "training/off_policy/evicted_samples": 0,
    }


def _one_step_off(plan: StepPlan, scalars: dict[str, float]) -> dict[str, float]:
    """Add the rollout's own time, which ran beside the step before, and the sync's outer timer."""
    begin_s, end_s = plan.rollout_window or (0.0, 0.0)
    return {
        **scalars,
        "timing_s/generate_async": end_s - begin_s,
        "timing_s/sync_rollout_weights": scalars["timing_s/update_weights"],
    }


def _fully_async(run: Run, plan: StepPlan, scalars: dict[str, float]) -> dict[str, float]:
    hidden = ("timing_s/agent_loop/", "perf/mfu/actor_infer", "timing_s/update_weights")
    kept = {name: value for name, value in scalars.items() if not name.startswith(hidden)}
    # The key carries the prefix twice, as in verl.
    kept["timing_s/timing_s/param_sync"] = scalars["timing_s/update_weights"]
    pools = run.scenario.pools
    count = len(plan.trajectories)
    ready = sum(item.end_s <= 0.0 for item in plan.trajectories)
    begin_s, end_s = plan.rollout_window or (0.0, 0.0)
    seconds = sorted(item.duration_s for item in plan.trajectories)
    partial = sum(item.policy_version_end is not None for item in plan.trajectories)
    dropped = sum(item.status == "dropped_stale" for item in plan.trajectories)
    capacity = count * (pools.buffer_batches if pools else 1)
    prefix = "fully_async"
    return {
        **kept,
        f"{prefix}/count/current_param_version": plan.step,
        f"{prefix}/count/total_generated_samples": count * plan.step,
        # A counter since the start of the training: every step like this one.
        f"{prefix}/count/dropped_stale_samples": dropped * plan.step,
        f"{prefix}/monitor/queue/mq_queue_size": ready,
        f"{prefix}/monitor/active_tasks_size": count - ready,
        f"{prefix}/static/max_queue_size": capacity,
        f"{prefix}/static/required_samples": count,
        f"{prefix}/static/max_required_samples": capacity,
        f"{prefix}/partial/total_partial_num": partial,
        f"{prefix}/partial/partial_ratio": partial / count,
        f"{prefix}/processing_time/avg": statistics.fmean(seconds),
        f"{prefix}/processing_time/max": seconds[-1],
        f"{prefix}/processing_time/tp50": seconds[len(seconds) // 2],
        f"{prefix}/trainer/idle_ratio": scalars["timing_s/gen"] / scalars["timing_s/step"],
        f"{prefix}/rollouter/active_time": end_s - begin_s,
        f"{prefix}/rollouter/version_time": plan.next_s,
        # verl keeps the last pause only: it reads as if the rollout were never held back.
        f"{prefix}/rollouter/idle_ratio": 0.001,
    }
