"""Plans a run of PPO or GRPO step by step. Pure: same arguments, same plan."""

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from longpole_sim.cluster import Cluster
from longpole_sim.library import LIBRARY
from longpole_sim.models import ModelShape
from longpole_sim.plan import StepPlan
from longpole_sim.pools import plan_pools
from longpole_sim.scenario import Scenario
from longpole_sim.scenarios import DEFAULT_SCENARIO
from longpole_sim.shared_gpus import plan_step

# From a crash to the start of the next attempt.
RESTART_S = 12.0


@dataclass(frozen=True, slots=True)
class Run:
    """What all steps of a simulated run share."""

    scenario: Scenario
    cluster: Cluster
    seed: int
    speed: float = 1.0

    @property
    def reported_model(self) -> ModelShape:
        """The model the run claims to train: at another speed, one of another size."""
        return self.scenario.model.scaled(1.0 / self.speed)


def make_run(
    scenario: str | Scenario = DEFAULT_SCENARIO,
    seed: int = 0,
    *,
    cluster: Cluster | None = None,
    speed: float = 1.0,
) -> Run:
    """Return a run of a named or own scenario.

    A scenario with pools of its own takes its trainer's GPUs from the cluster.

    Raises:
        KeyError: No scenario has that name.
    """
    chosen = LIBRARY[scenario] if isinstance(scenario, str) else scenario
    cluster = cluster or Cluster()
    if chosen.pools is not None and not cluster.trainer_gpu_count:
        wanted = round(cluster.gpu_count * chosen.pools.trainer_gpu_ratio)
        trainers = max(1, min(cluster.gpu_count - 1, wanted))
        cluster = dataclasses.replace(cluster, trainer_gpu_count=trainers)
    return Run(chosen, cluster, seed, speed)


def plan_steps(
    scenario: str | Scenario = DEFAULT_SCENARIO,
    seed: int = 0,
    steps: int | None = None,
    *,
    cluster: Cluster | None = None,
    speed: float = 1.0,
) -> Iterator[StepPlan]:
    """Return the steps of a run in the order they happen, over all its attempts.

    Args:
        scenario: A name from the library, or a scenario.
        seed: Same seed, same run.
        steps: Number of the last step; None for ever.
        cluster: Two nodes of eight GPUs when None.
        speed: Divides every duration.

    Raises:
        KeyError: No scenario has that name.
    """
    return plan_run(make_run(scenario, seed, cluster=cluster, speed=speed), steps)


def plan_run(run: Run, steps: int | None = None, first_attempt: int = 1) -> Iterator[StepPlan]:
    """Return the steps of all attempts from `first_attempt` on, the last one being `steps`."""
    start_s = 0.0
    for attempt in itertools.count(first_attempt):
        incident = run.scenario.incident
        for plan in _plan_attempt(run, steps, attempt):
            yield dataclasses.replace(plan, start_s=start_s)
            start_s += plan.next_s
            if plan.incident is not None:
                break
        else:
            return
        if incident is None or incident.kind == "hang":
            return
        start_s += RESTART_S / run.speed


def _plan_attempt(run: Run, steps: int | None, attempt: int) -> Iterator[StepPlan]:
    """Return the steps of one attempt, each starting at 0, without end where `steps` is None."""
    scenario = run.scenario
    first = first_step_of_attempt(scenario, attempt)
    if scenario.pools is not None:
        plans = plan_pools(scenario, run.cluster, run.seed, first, attempt)
    else:
        plans = (
            plan_step(scenario, run.cluster, run.seed, step, attempt)
            for step in itertools.count(first)
        )
    for plan in plans:
        if steps is not None and plan.step > steps:
            return
        yield plan.stretched(1.0 / run.speed)


def first_step_of_attempt(scenario: Scenario, attempt: int) -> int:
    """Return the step an attempt starts with: the one after the last checkpoint."""
    incident = scenario.incident
    if attempt == 1 or incident is None or not scenario.checkpoint_every:
        return scenario.first_step
    return (incident.step - 1) // scenario.checkpoint_every * scenario.checkpoint_every + 1
