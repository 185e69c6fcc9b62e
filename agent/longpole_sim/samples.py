"""Draws the samples of a step and lets the replicas of the cluster serve them."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole_sim.cluster import Cluster, Replica
from longpole_sim.plan import PartPlan, TrajectoryPlan
from longpole_sim.rollout import PREEMPTED, Engine, Request, serve
from longpole_sim.scenario import Latency, Lengths, Scenario
from longpole_sim.seeding import random_for

# The replica that a scenario slows down or crowds, counted over those there are.
SLOW_REPLICA = 2
# Answers grow by this part, slowly, as training goes on; so does the share of right ones.
_LENGTH_GROWTH = 0.15
_FIRST_ACCURACY, _ACCURACY_GAIN = 0.38, 0.30
_LEARNING_STEPS = 150.0
_SHORTEST_ANSWER = 8
_DECODE_BY_CLOCK = 0.3


@dataclass(frozen=True, slots=True)
class Batch:
    """What one rollout phase asks for.

    Attributes:
        phase: `train` or `validation`.
        groups_per_replica: Prompts sent to each replica.
        group_size: Samples per prompt.
    """

    step: int
    phase: str
    groups_per_replica: int
    group_size: int


@dataclass(frozen=True, slots=True)
class _Draft:
    identity: str
    group_id: str
    prompt_tokens: int
    cached_tokens: int
    accuracy: float
    request: Request
    truncated: bool
    discarded: str

    @property
    def output_tokens(self) -> int:
        return sum(self.request.turn_tokens)


def slow_replica(cluster: Cluster) -> int:
    """Return the index of the replica that is unlike the others."""
    return SLOW_REPLICA % len(cluster.replicas)


def training_batch(scenario: Scenario, cluster: Cluster, step: int) -> Batch:
    """Return the batch that one training step rolls out."""
    samples = scenario.samples_per_gpu * cluster.gpu_count / len(cluster.replicas)
    groups = max(1, round(samples) // scenario.group_size)
    return Batch(step, "train", groups, scenario.group_size)


def validation_batch(scenario: Scenario, cluster: Cluster, step: int) -> Batch:
    """Return the batch that one validation rolls out: one greedy answer per prompt."""
    samples = scenario.validation_samples_per_gpu * cluster.tensor_parallel_size
    return Batch(step, "validation", samples, 1)


def roll_out(
    scenario: Scenario, cluster: Cluster, batch: Batch, seed: str, start_s: float
) -> tuple[TrajectoryPlan, ...]:
    """Return all trajectories of a batch whose requests are sent at `start_s`."""
    replicas = cluster.replicas
    sent_to: list[list[_Draft]] = [[] for _ in replicas]
    generators = [random_for(seed, batch.phase, replica.index) for replica in replicas]
    for replica, generator in zip(replicas, generators, strict=True):
        drafts = _draft(scenario, cluster, batch, replica, generator)
        for i, draft in enumerate(drafts):
            away = i % scenario.group_size if scenario.groups_apart else 0
            sent_to[(replica.index + away) % len(replicas)].append(draft)
    trajectories: list[TrajectoryPlan] = []
    for replica, drafts, generator in zip(replicas, sent_to, generators, strict=True):
        engine = make_engine(scenario, cluster, replica)
        served = serve(engine, [draft.request for draft in drafts], start_s)
        trajectories += [
            _finish(draft, parts, replica, batch, generator)
            for draft, parts in zip(drafts, served, strict=True)
        ]
    return tuple(trajectories)


def make_engine(scenario: Scenario, cluster: Cluster, replica: Replica) -> Engine:
    """Return the engine of a replica as a scenario has it."""
    is_slow = replica.index == slow_replica(cluster)
    num_gpus = len(replica.gpus)
    cap, kv, fault = scenario.max_running, scenario.kv_tokens, scenario.fault
    speed = scenario.decode_speed * (scenario.slow_replica_speed if is_slow else 1.0)
    if fault is not None and fault.kind == "throttled":
        faulty = cluster.gpus[fault.index % cluster.gpu_count]
        if faulty in replica.gpus:
            # Decoding waits for memory, whose clock stays, more than for the SMs.
            speed *= fault.clock_ratio**_DECODE_BY_CLOCK
    return Engine(
        num_gpus,
        speed,
        None if cap is None else cap * num_gpus,
        None if kv is None else kv * num_gpus,
        scenario.prefill_tokens_per_s * num_gpus,
    )


def _num_groups(scenario: Scenario, cluster: Cluster, batch: Batch, replica: Replica) -> int:
    """A crowded replica has more of a step's groups, the others share what is left."""
    count = len(cluster.replicas)
    if scenario.crowded_replica == 1.0 or count < 2 or batch.phase != "train":
        return batch.groups_per_replica
    crowded = round(batch.groups_per_replica * scenario.crowded_replica)
    if replica.index == slow_replica(cluster):
        return crowded
    return max(1, round((batch.groups_per_replica * count - crowded) / (count - 1)))


def _draft(
    scenario: Scenario, cluster: Cluster, batch: Batch, replica: Replica, generator: random.Random
) -> list[_Draft]:
    learned = 1.0 - math.exp(-batch.step / _LEARNING_STEPS)
    response = replace(
        scenario.response, median=scenario.response.median * (1 + _LENGTH_GROWTH * learned)
    )
    drafts: list[_Draft] = []
    for group in range(_num_groups(scenario, cluster, batch, replica)):
        group_id = f"{batch.phase}-{batch.step}-p{replica.index}-{group}"
        prompt_tokens = _length(scenario.prompt, generator.gauss(0.0, 1.0), generator)
        difficulty = generator.gauss(0.0, 1.0)
        # Longer answers belong to harder prompts.
        accuracy = _FIRST_ACCURACY + _ACCURACY_GAIN * learned - 0.12 * difficulty
        is_filtered = batch.phase == "train" and generator.random() < scenario.filtered_ratio
        for i in range(batch.group_size):
            tokens = _length(response, difficulty, generator)
            unread = _unread_tokens(scenario, cluster, batch, i, prompt_tokens)
            shared = batch.group_size if scenario.prefix_cache else 1
            kept = prompt_tokens / shared
            request = _request(scenario, tokens, generator, kept, unread)
            drafts.append(
                _Draft(
                    f"{batch.phase}-{batch.step}-{replica.index}-{group}-{i}",
                    group_id,
                    prompt_tokens,
                    prompt_tokens - unread,
                    accuracy,
                    request,
                    tokens >= response.cap,
                    "filtered" if is_filtered else _dropped(scenario, batch, generator),
                )
            )
    return drafts


def _dropped(scenario: Scenario, batch: Batch, generator: random.Random) -> str:
    """Return the status of a sample that is thrown away for its age, nothing for others."""
    if not scenario.stale_drop_ratio or batch.phase != "train":
        return ""
    return "dropped_stale" if generator.random() < scenario.stale_drop_ratio else ""


def _unread_tokens(
    scenario: Scenario, cluster: Cluster, batch: Batch, index: int, prompt_tokens: int
) -> int:
    """Prompt tokens that the engine must read: of a shared prompt, the first sample's only."""
    if not scenario.prefix_cache:
        return prompt_tokens
    num_first = min(len(cluster.replicas), batch.group_size) if scenario.groups_apart else 1
    return prompt_tokens if index < num_first else 0


def _length(lengths: Lengths, group_deviation: float, generator: random.Random) -> int:
    exponent = lengths.group_sigma * group_deviation
    exponent += lengths.sample_sigma * generator.gauss(0.0, 1.0)
    tokens = round(lengths.median * math.exp(exponent))
    return max(_SHORTEST_ANSWER, min(lengths.cap, tokens))


def _seconds(latency: Latency, generator: random.Random) -> float:
    stuck = generator.random() < latency.stuck_probability
    if stuck:
        return latency.stuck_s * (1.0 + 0.06 * generator.random())
    return latency.median_s * math.exp(latency.sigma * generator.gauss(0.0, 1.0))


def _request(
    scenario: Scenario,
    tokens: int,
    generator: random.Random,
    prompt_tokens: float,
    prefill_tokens: float,
) -> Request:
    tools = scenario.tools
    num_calls = generator.randint(tools.min_calls, tools.max_calls) if tools else 0
    score_s = _seconds(scenario.score, generator)
    if tools is None or num_calls == 0:
        return Request(
            (tokens,),
            score_s=score_s,
            score_name=scenario.score.name,
            prompt_tokens=prompt_tokens,
            prefill_tokens=prefill_tokens,
        )
    last = min(tools.last_turn_tokens, max(1, tokens // 2))
    first = max(1, (tokens - last) // num_calls)
    return Request(
        turn_tokens=(first,) * num_calls + (last,),
        tool_s=tuple(_seconds(tools.call, generator) for _ in range(num_calls)),
        tool_name=tools.call.name,
        score_s=score_s,
        score_name=scenario.score.name,
        prompt_tokens=prompt_tokens,
        prefill_tokens=prefill_tokens,
    )


def _finish(
    draft: _Draft,
    parts: Sequence[PartPlan],
    replica: Replica,
    batch: Batch,
    generator: random.Random,
) -> TrajectoryPlan:
    solved = not draft.truncated and generator.random() < draft.accuracy
    status = "truncated" if draft.truncated else "success"
    return TrajectoryPlan(
        trajectory_id=draft.identity,
        group_id=draft.group_id,
        replica=replica.name,
        node=replica.node,
        start_s=parts[0].start_s,
        end_s=parts[-1].end_s,
        parts=tuple(parts),
        input_tokens=draft.prompt_tokens,
        output_tokens=draft.output_tokens,
        turns=len(draft.request.turn_tokens),
        status=draft.discarded or status,
        reward=1.0 if solved else 0.0,
        # The policy has been updated once per finished step.
        policy_version=batch.step - 1,
        preemptions=sum(part.name == PREEMPTED for part in parts),
        phase=batch.phase,
        step=batch.step,
        cached_tokens=draft.cached_tokens,
    )
