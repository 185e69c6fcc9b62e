"""What a planned run deserves to be told, from what was planned and not from what is reported.

The definitions are those of the decision table. Every decision is taken with a margin: where a
quantity lies near its limit, two honest observers may differ, and the run is no example of
anything (`Truth.doubts`).
"""

import heapq
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from longpole.conventions.stages import (
    GEN,
    SAVE_CHECKPOINT,
    SLEEP_WAKE,
    STAGES,
    TESTING,
    UPDATE_ACTOR,
    UPDATE_CRITIC,
    UPDATE_WEIGHTS,
)
from longpole_sim.cluster import Cluster
from longpole_sim.models import H100_PEAK_FLOPS_PER_S
from longpole_sim.plan import StepPlan, TrajectoryPlan
from longpole_sim.samples import slow_replica
from longpole_sim.workload import Run

_OVERHEAD, _OUTSIDE, _ROLLOUT, _UPDATE, _SYNC = "overhead", "outside", "rollout", "update", "sync"
# Steps of an attempt from which on its first one, which warms up, does not count.
_MIN_STEPS_TO_DROP_FIRST = 3
# Seconds a sample waits for its own prefill are no queue: a queue takes this part of its time.
_QUEUE_MATTERS = 0.25


@dataclass(frozen=True, slots=True)
class Truth:
    """What is true of a run's steps.

    Attributes:
        verdict: Code of the decision table.
        cause: Code of the second level, on separate pools.
        doubts: Decisions that are too near to a limit to be called true or false.
        figures: What was decided by, for people.
    """

    verdict: str
    cause: str | None
    doubts: tuple[str, ...]
    figures: Mapping[str, float]


@dataclass(slots=True)
class _Court:
    """Decides, and notes what was too near to call."""

    doubts: list[str] = field(default_factory=list[str])
    figures: dict[str, float] = field(default_factory=dict[str, float])

    def reaches(self, what: str, value: float, limit: float, margin: float) -> bool:
        """Return whether `value` reaches `limit`; within `margin` of it there is a doubt."""
        self.figures[what] = value
        if abs(value - limit) < margin:
            self.doubts.append(what)
        return value >= limit


def judged(run: Run, plans: Sequence[StepPlan]) -> list[StepPlan]:
    """Return the steps that count: closed ones, without the first of each longer attempt.

    Where something changes, those after the change.
    """
    closed = [plan for plan in plans if plan.incident is None]
    change = run.scenario.change
    if change is not None:
        return [plan for plan in closed if plan.step >= change.step]
    kept: list[StepPlan] = []
    for attempt in sorted({plan.attempt for plan in closed}):
        own = [plan for plan in closed if plan.attempt == attempt]
        kept += own[1:] if len(own) >= _MIN_STEPS_TO_DROP_FIRST else own
    return kept


def find_truth(run: Run, plans: Sequence[StepPlan]) -> Truth:
    """Return what is true of a run's steps."""
    steps, court = judged(run, plans), _Court()
    verdict, cause = None, None
    if run.scenario.separate_pools:
        verdict, cause = _judge_pools(run, steps, court)
    if verdict is None:
        family = _dominant(run, steps, court)
        verdict = "balanced" if family is None else _judge_family(family, run, steps, court)
    return Truth(verdict, cause, tuple(court.doubts), court.figures)


def _judge_family(family: str, run: Run, steps: Sequence[StepPlan], court: _Court) -> str:
    if family == _ROLLOUT:
        return _judge_rollout(run, steps, court)
    if family == _UPDATE:
        return _judge_update(run, steps, court)
    if family == _SYNC:
        weights_s, sleep_s = _seconds(steps, UPDATE_WEIGHTS), _seconds(steps, SLEEP_WAKE)
        more = court.reaches("weights/sleep", weights_s / max(1e-9, sleep_s + weights_s), 0.5, 0.05)
        return "sync.weights" if more else "sync.sleep_wake"
    return {_OVERHEAD: "overhead.unattributed", _OUTSIDE: "overhead.outside"}.get(family, family)


# --- families ---------------------------------------------------------------------------------


def family_seconds(run: Run, steps: Sequence[StepPlan]) -> dict[str, float]:
    """Return seconds of all steps by family; the trainer's wait on separate pools is `wait`."""
    seconds: dict[str, float] = {_OVERHEAD: 0.0}
    for plan in steps:
        covered_s, last_s = 0.0, 0.0
        # Where two overlap, the time belongs to the one that ends last.
        for stage in sorted(plan.stages, key=lambda item: item.end_s):
            lost_s = max(0.0, last_s - stage.start_s)
            family = STAGES[stage.stage].family
            if run.scenario.separate_pools and stage.stage == GEN:
                family = "wait"
            seconds[family] = seconds.get(family, 0.0) + stage.duration_s
            if lost_s:
                before = STAGES[plan.stages[plan.stages.index(stage) - 1].stage].family
                seconds[before] -= lost_s
            covered_s += stage.duration_s - lost_s
            last_s = stage.end_s
        seconds[_OVERHEAD] += plan.duration_s - covered_s
        for stage in plan.between:
            seconds[_OUTSIDE] = seconds.get(_OUTSIDE, 0.0) + stage.duration_s
    return seconds


def _dominant(run: Run, steps: Sequence[StepPlan], court: _Court) -> str | None:
    seconds = family_seconds(run, steps)
    total_s = math.fsum(plan.duration_s for plan in steps)
    outside = _periodic_outside(run, steps) / total_s
    shares = {
        family: value / total_s
        for family, value in seconds.items()
        if family not in {_OUTSIDE, "wait"}
    }
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    (family, share), (_, second) = ranked[0], ranked[1]
    if court.reaches("outside", outside, 0.50, 0.05) and outside >= share:
        if outside - share < 0.05:
            court.doubts.append("outside against families")
        return _OUTSIDE
    reaches = court.reaches("share", share, 0.40, 0.025)
    leads = court.reaches("lead", share - second, 0.05, 0.02)
    if not (reaches and leads) and "share" in court.doubts and not leads:
        # What does not lead does not dominate, whatever its share.
        court.doubts.remove("share")
    return family if reaches and leads else None


def _periodic_outside(run: Run, steps: Sequence[StepPlan]) -> float:
    """Return what validation and checkpoints cost, each with its share of its whole cycles."""
    total_s = 0.0
    scenario = run.scenario
    for name, every in (
        (TESTING, scenario.validation_every),
        (SAVE_CHECKPOINT, scenario.checkpoint_every),
    ):
        found = [stage.duration_s for plan in steps if (stage := plan.stage(name)) is not None]
        if found and every:
            total_s += statistics.fmean(found) * len(steps) / every
    return total_s


def _seconds(steps: Sequence[StepPlan], name: str) -> float:
    return math.fsum(
        stage.duration_s for plan in steps for stage in plan.stages if stage.stage == name
    )


# --- update -----------------------------------------------------------------------------------


def stage_mfu(run: Run, plan: StepPlan) -> float:
    """Return the model work of a step's update over what its GPUs could have done meanwhile."""
    update = plan.stage(UPDATE_ACTOR)
    if update is None:
        return 0.0
    work = run.reported_model.training_flops(plan.sequence_lengths) * run.scenario.epochs
    gpus = len(run.cluster.trainer_gpus)
    return work / (update.duration_s * gpus * H100_PEAK_FLOPS_PER_S)


def _judge_update(run: Run, steps: Sequence[StepPlan], court: _Court) -> str:
    scenario = run.scenario
    critic_s, actor_s = _seconds(steps, UPDATE_CRITIC), _seconds(steps, UPDATE_ACTOR)
    if court.reaches("critic/actor", critic_s / actor_s, 1.0, 0.08):
        return "update.critic"
    balance = max(scenario.dp_imbalance, _balance(run, steps))
    if court.reaches("dp balance", balance, 1.15, 0.04):
        return "update.imbalance"
    if scenario.fault is not None and scenario.fault.kind == "throttled":
        return "update.imbalance"
    mfu = statistics.fmean(stage_mfu(run, plan) for plan in steps)
    knows_stage = scenario.tells_model
    reported = scenario.reported_mfu == "true"
    if not knows_stage and not reported:
        return "update.unknown"
    return _judge_mfu(run, mfu, court)


def _judge_mfu(run: Run, mfu: float, court: _Court) -> str:
    scenario = run.scenario
    low, healthy = (0.10, 0.20) if scenario.model.is_moe else (0.20, 0.35)
    if scenario.reported_mfu == "true":
        kept = 1.0 / scenario.inner_of_stage
        if not court.reaches("stage/inner mfu", kept, 0.75, 0.05):
            return "update.inefficient"
    if court.reaches("mfu", mfu, healthy, 0.05 * healthy):
        return "update.compute"
    fell = _change_factor(run, "actor_mfu") < 0.75
    if not fell and court.reaches("mfu low", mfu, low, 0.06 * low):
        court.doubts.append("mfu between the bands")
    return "update.inefficient"


def _change_factor(run: Run, name: str) -> float:
    """Return by what a field of the scenario changed before the judged steps."""
    change = run.scenario.change
    return 1.0 if change is None else change.factors.get(name, 1.0)


def _balance(run: Run, steps: Sequence[StepPlan]) -> float:
    """Tokens of the fullest rank over the mean one, after balancing."""
    ranks = len(run.cluster.trainer_gpus)
    ratios: list[float] = []
    for plan in steps:
        lengths = plan.sequence_lengths
        sums = [0] * min(ranks, len(lengths))
        for length in sorted(lengths, reverse=True):
            heapq.heapreplace(sums, sums[0] + length)
        ratios.append(max(sums) * ranks / sum(lengths))
    return statistics.fmean(ratios)


# --- rollout ----------------------------------------------------------------------------------


def _judge_rollout(run: Run, steps: Sequence[StepPlan], court: _Court) -> str:
    if _preempts(steps, court):
        return "rollout.preemption"
    if _fills_end(steps, "tool", court):
        return "rollout.tool"
    if _fills_end(steps, "score", court):
        return "rollout.reward"
    cut = _over(steps, lambda plan: _ratio(plan, lambda item: item.status == "truncated"))
    if court.reaches("truncated", cut, 0.25, 0.05):
        return "rollout.truncation"
    if _is_imbalanced(run, steps, court):
        return "rollout.imbalance"
    return _judge_lengths(run, steps, court)


def _judge_lengths(run: Run, steps: Sequence[StepPlan], court: _Court) -> str:
    span = _over(steps, _span_ratio)
    time_ratio, token_ratio = _over(steps, _time_ratio), _over(steps, _token_ratio)
    fills = court.reaches("slowest/gen", span, 0.85, 0.04)
    if not fills:
        return "rollout.unexplained"
    uneven = court.reaches("slowest/mean time", time_ratio, 1.5, 0.1)
    if uneven:
        explained = token_ratio / time_ratio
        # Decoding speeds up as slots empty: tokens may exceed time, by less than this.
        low = court.reaches("token/time ratio", explained, 1 / 1.5, 0.07)
        if explained > 1.5:
            court.doubts.append("token/time ratio, above")
        return "rollout.long_tail" if low else "rollout.unexplained"
    if court.reaches("slowest/mean time, even", time_ratio, 1.3, 0.05):
        return "rollout.unexplained"
    rate = _over(steps, _decode_rate)
    if _change_factor(run, "decode_speed") < 0.75:
        return "rollout.engine"
    if court.reaches("tokens/s", rate, 30.0, 4.0):
        court.doubts.append("an even rollout at an ordinary rate")
    return "rollout.engine"


def _over(steps: Sequence[StepPlan], measure: Callable[[StepPlan], float]) -> float:
    return statistics.median(measure(plan) for plan in steps)


def _ratio(plan: StepPlan, test: Callable[[TrajectoryPlan], bool]) -> float:
    return sum(map(test, plan.trajectories)) / len(plan.trajectories)


def _preempts(steps: Sequence[StepPlan], court: _Court) -> bool:
    """Work done twice, by what was lost, and by the estimate that counts allow."""
    lost = _over(steps, recomputed_ratio)
    estimate = _over(steps, _estimated_recomputed_ratio)
    reaches = court.reaches("recomputed", lost, 0.05, 0.015)
    estimated = court.reaches("recomputed, estimated", estimate, 0.05, 0.015)
    if reaches != estimated:
        court.doubts.append("recomputed: count and loss differ")
    return reaches


def recomputed_ratio(plan: StepPlan) -> float:
    """Return tokens read again after a preemption over the tokens generated."""
    lost = 0.0
    for item in plan.trajectories:
        behind, kv = 0.0, 0.0
        for part in item.parts:
            if part.kind == "generate":
                kv = part.kv_tokens + part.tokens
                behind += part.tokens
            elif part.name == "preempted":
                lost += kv
    return lost / max(1, sum(item.output_tokens for item in plan.trajectories))


def _estimated_recomputed_ratio(plan: StepPlan) -> float:
    count = len(plan.trajectories)
    preemptions = sum(item.preemptions for item in plan.trajectories) / count
    prompt = sum(item.input_tokens for item in plan.trajectories) / count
    response = sum(item.output_tokens for item in plan.trajectories) / count
    return preemptions * (prompt + response / 2) / max(1.0, response)


def _last(plan: StepPlan) -> list[TrajectoryPlan]:
    count = max(3, math.ceil(0.01 * len(plan.trajectories)))
    return sorted(plan.trajectories, key=lambda item: item.end_s)[-count:]


def _fills_end(steps: Sequence[StepPlan], kind: str, court: _Court) -> bool:
    """Return whether one kind of work is half of the last samples' time, and of the slowest's."""

    def of_end(plan: StepPlan) -> float:
        last = _last(plan)
        return sum(item.seconds(kind) for item in last) / sum(item.duration_s for item in last)

    def of_slowest(plan: StepPlan) -> float:
        slowest = max(plan.trajectories, key=lambda item: item.duration_s)
        return slowest.seconds(kind) / slowest.duration_s

    end, slowest = _over(steps, of_end), _over(steps, of_slowest)
    reaches = court.reaches(f"{kind} of end", end, 0.5, 0.06)
    if court.reaches(f"{kind} of slowest", slowest, 0.5, 0.06) != reaches:
        court.doubts.append(f"{kind}: the slowest sample and the last ones differ")
    return reaches


def _paces(plan: StepPlan) -> tuple[dict[str, float], dict[str, float]]:
    """Return seconds a token and mean tokens of each replica."""
    seconds: dict[str, float] = {}
    tokens: dict[str, float] = {}
    counts: dict[str, int] = {}
    for item in plan.trajectories:
        seconds[item.replica] = seconds.get(item.replica, 0.0) + item.seconds("generate")
        tokens[item.replica] = tokens.get(item.replica, 0.0) + item.output_tokens
        counts[item.replica] = counts.get(item.replica, 0) + 1
    paces = {name: seconds[name] / tokens[name] for name in tokens}
    return paces, {name: tokens[name] / counts[name] for name in tokens}


def _is_imbalanced(run: Run, steps: Sequence[StepPlan], court: _Court) -> bool:
    if len(run.cluster.replicas) < 2:
        return False

    def pace(plan: StepPlan) -> float:
        paces, _ = _paces(plan)
        slowest = max(paces, key=lambda name: paces[name])
        others = [value for name, value in paces.items() if name != slowest]
        return paces[slowest] / statistics.median(others)

    def alike(plan: StepPlan) -> float:
        paces, tokens = _paces(plan)
        slowest = max(paces, key=lambda name: paces[name])
        ratio = tokens[slowest] / statistics.fmean(tokens.values())
        return max(ratio, 1 / ratio)

    slower = court.reaches("replica pace", _over(steps, pace), 1.3, 0.1)
    if slower:
        return not court.reaches("replica lengths", _over(steps, alike), 1.3, 0.08)
    return court.reaches("queue beside idle", _queue_beside_idle(run.cluster, steps), 0.15, 0.08)


def _queue_beside_idle(cluster: Cluster, steps: Sequence[StepPlan]) -> float:
    """Return for which part of the rollout one replica has a queue while another has nothing."""
    crowded = f"replica-{slow_replica(cluster)}"

    def measure(plan: StepPlan) -> float:
        begin_s, end_s = plan.rollout_window or (0.0, 1.0)
        queued_s = [
            part.end_s
            for item in plan.trajectories
            if item.replica == crowded and item.seconds("queue") > _QUEUE_MATTERS * item.duration_s
            for part in item.parts
            if part.kind == "queue"
        ]
        if not queued_s:
            return 0.0
        ends: dict[str, float] = {}
        for item in plan.trajectories:
            if item.replica != crowded:
                ends[item.replica] = max(ends.get(item.replica, 0.0), item.end_s)
        idle_from_s = statistics.median(ends.values())
        return max(0.0, max(queued_s) - idle_from_s) / (end_s - begin_s)

    return _over(steps, measure)


def _gen_s(plan: StepPlan) -> float:
    """Seconds in which the step's samples were made: gen; on pools from launch to the last one."""
    gen = plan.stage(GEN)
    begin_s, end_s = plan.rollout_window or (0.0, 0.0)
    return max(gen.duration_s if gen else 0.0, end_s - begin_s)


def _slowest(plan: StepPlan) -> TrajectoryPlan:
    return max(plan.trajectories, key=lambda item: item.duration_s)


def _span_ratio(plan: StepPlan) -> float:
    return _slowest(plan).duration_s / _gen_s(plan)


def _time_ratio(plan: StepPlan) -> float:
    return _slowest(plan).duration_s / statistics.fmean(
        item.duration_s for item in plan.trajectories
    )


def _token_ratio(plan: StepPlan) -> float:
    return _slowest(plan).output_tokens / statistics.fmean(
        item.output_tokens for item in plan.trajectories
    )


def _decode_rate(plan: StepPlan) -> float:
    return statistics.median(
        item.output_tokens / item.seconds("generate") for item in plan.trajectories
    )


# --- separate pools ---------------------------------------------------------------------------


def _judge_pools(
    run: Run, steps: Sequence[StepPlan], court: _Court
) -> tuple[str | None, str | None]:
    wait_s, total_s = _seconds(steps, GEN), math.fsum(plan.duration_s for plan in steps)
    wait = wait_s / total_s
    trainer_s, rollout_s = idle_gpu_seconds(run, steps)
    overlap = statistics.fmean(map(_overlap, steps))
    if not court.reaches("overlap", overlap, 0.10, 0.04):
        return "async.serial", None
    if court.reaches("trainer wait", wait, 0.20, 0.03):
        more = court.reaches("idle GPUs", trainer_s / (trainer_s + rollout_s), 0.5, 0.08)
        if more:
            return "async.trainer_starved", _judge_rollout(run, steps, court)
        return None, None
    if court.reaches("trainer wait, busy", wait, 0.10, 0.02):
        return None, None
    paused = statistics.fmean(map(_rollout_idle, steps))
    if court.reaches("rollout paused", paused, 0.10, 0.04):
        return "async.rollout_starved", None
    return None, None


def _overlap(plan: StepPlan) -> float:
    """Return how long both sides worked at a time, over the work of the shorter one."""
    gen = plan.stage(GEN)
    train = (gen.end_s if gen else 0.0, plan.duration_s)
    spans = _union([(item.start_s, item.end_s) for item in plan.rollout])
    inside = math.fsum(max(0.0, min(end, plan.next_s) - max(start, 0.0)) for start, end in spans)
    both = math.fsum(max(0.0, min(end, train[1]) - max(start, train[0])) for start, end in spans)
    shorter = min(inside, train[1] - train[0])
    return both / shorter if shorter > 0 else 0.0


def _rollout_idle(plan: StepPlan) -> float:
    spans = _union([(item.start_s, item.end_s) for item in plan.rollout])
    busy = math.fsum(max(0.0, min(end, plan.next_s) - max(start, 0.0)) for start, end in spans)
    return 1.0 - busy / plan.next_s


def _union(windows: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def idle_gpu_seconds(run: Run, steps: Sequence[StepPlan]) -> tuple[float, float]:
    """Return GPU-seconds without work of the trainer's pool and of the rollout's."""
    trainer_s = _seconds(steps, GEN) * len(run.cluster.trainer_gpus)
    rollout_s = 0.0
    for plan in steps:
        for replica in run.cluster.replicas:
            spans = _union(
                [
                    (part.start_s, part.end_s)
                    for item in plan.rollout
                    if item.replica == replica.name
                    for part in item.parts
                    if part.kind == "generate"
                ]
            )
            busy = math.fsum(
                max(0.0, min(end, plan.duration_s) - max(start, 0.0)) for start, end in spans
            )
            rollout_s += (plan.duration_s - busy) * len(replica.gpus)
    return trainer_s, rollout_s
