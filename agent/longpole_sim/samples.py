"""Draws the samples of a step and lets the replicas of the cluster serve them."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from longpole_sim.cluster import Cluster, Replica
from longpole_sim.plan import PartPlan, TrajectoryPlan
from longpole_sim.rollout import Engine, Request, serve
from longpole_sim.scenarios import Latency, Lengths, Scenario
from longpole_sim.seeding import random_for

# The replica that a scenario slows down.
SLOW_REPLICA = 2
# Answers grow by this part, slowly, as training goes on; so does the share of right ones.
_LENGTH_GROWTH = 0.15
_FIRST_ACCURACY, _ACCURACY_GAIN = 0.38, 0.30
_LEARNING_STEPS = 150.0
_VALIDATION_SAMPLES_PER_GPU = 4
_SHORTEST_ANSWER = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """What one rollout phase asks for.

    Attributes:
        phase: `train` or `validation`.
        groups_per_replica: Prompts sent to each replica: all samples of one stay together, so
            that the engine's prefix cache holds their prompt.
        group_size: Samples per prompt.
    """

    step: int
    phase: str
    groups_per_replica: int
    group_size: int


@dataclass(frozen=True, slots=True)
class _Draft:
    group_id: str
    prompt_tokens: int
    accuracy: float
    request: Request
    truncated: bool

    @property
    def output_tokens(self) -> int:
        return sum(self.request.turn_tokens)


def training_batch(scenario: Scenario, cluster: Cluster, step: int) -> Batch:
    """Return the batch that one training step rolls out."""
    samples = scenario.samples_per_gpu * cluster.tensor_parallel_size
    return Batch(step, "train", max(1, samples // scenario.group_size), scenario.group_size)


def validation_batch(cluster: Cluster, step: int) -> Batch:
    """Return the batch that one validation rolls out: one greedy answer per prompt."""
    return Batch(step, "validation", _VALIDATION_SAMPLES_PER_GPU * cluster.tensor_parallel_size, 1)


def roll_out(
    scenario: Scenario, cluster: Cluster, batch: Batch, seed: str, start_s: float
) -> tuple[TrajectoryPlan, ...]:
    """Return all trajectories of a batch whose requests are sent at `start_s`."""
    trajectories: list[TrajectoryPlan] = []
    for replica in cluster.replicas:
        generator = random_for(seed, batch.phase, replica.index)
        drafts = _draft(scenario, batch, replica, generator)
        engine = _engine(scenario, replica)
        served = serve(engine, [draft.request for draft in drafts], start_s)
        for i, (draft, parts) in enumerate(zip(drafts, served, strict=True)):
            identity = f"{batch.phase}-{batch.step}-{replica.index}-{i}"
            trajectories.append(_finish(identity, draft, parts, replica, batch, generator))
    return tuple(trajectories)


def _engine(scenario: Scenario, replica: Replica) -> Engine:
    slow = scenario.slow_replica_speed if replica.index == SLOW_REPLICA else 1.0
    return Engine(len(replica.gpus), scenario.decode_speed * slow)


def _draft(
    scenario: Scenario, batch: Batch, replica: Replica, generator: random.Random
) -> list[_Draft]:
    learned = 1.0 - math.exp(-batch.step / _LEARNING_STEPS)
    response = replace(
        scenario.response, median=scenario.response.median * (1 + _LENGTH_GROWTH * learned)
    )
    drafts: list[_Draft] = []
    for group in range(batch.groups_per_replica):
        group_id = f"{batch.phase}-{batch.step}-p{replica.index * batch.groups_per_replica + group}"
        prompt_tokens = _length(scenario.prompt, generator.gauss(0.0, 1.0), generator)
        difficulty = generator.gauss(0.0, 1.0)
        # Longer answers belong to harder prompts.
        accuracy = _FIRST_ACCURACY + _ACCURACY_GAIN * learned - 0.12 * difficulty
        for _ in range(batch.group_size):
            tokens = _length(response, difficulty, generator)
            request = _request(scenario, tokens, generator)
            drafts.append(
                _Draft(group_id, prompt_tokens, accuracy, request, tokens >= response.cap)
            )
    return drafts


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


def _request(scenario: Scenario, tokens: int, generator: random.Random) -> Request:
    tools = scenario.tools
    num_calls = generator.randint(0, tools.max_calls) if tools else 0
    score_s = _seconds(scenario.score, generator)
    if tools is None or num_calls == 0:
        return Request((tokens,), score_s=score_s, score_name=scenario.score.name)
    first = max(1, (tokens - tools.last_turn_tokens) // num_calls)
    return Request(
        turn_tokens=(first,) * num_calls + (tools.last_turn_tokens,),
        tool_s=tuple(_seconds(tools.call, generator) for _ in range(num_calls)),
        tool_name=tools.call.name,
        score_s=score_s,
        score_name=scenario.score.name,
    )


def _finish(
    identity: str,
    draft: _Draft,
    parts: Sequence[PartPlan],
    replica: Replica,
    batch: Batch,
    generator: random.Random,
) -> TrajectoryPlan:
    solved = not draft.truncated and generator.random() < draft.accuracy
    return TrajectoryPlan(
        trajectory_id=identity,
        group_id=draft.group_id,
        replica=replica.name,
        node=replica.node,
        start_s=parts[0].start_s,
        end_s=parts[-1].end_s,
        parts=tuple(parts),
        input_tokens=draft.prompt_tokens,
        output_tokens=draft.output_tokens,
        turns=len(draft.request.turn_tokens),
        status="truncated" if draft.truncated else "success",
        reward=1.0 if solved else 0.0,
        # The policy has been updated once per finished step.
        policy_version=batch.step - 1,
        phase=batch.phase,
    )
