"""A pretend cluster: what runs on it is planned here, and emitted through the real SDK."""

from longpole_sim.cluster import Cluster
from longpole_sim.library import LIBRARY
from longpole_sim.plan import PartPlan, StagePlan, StepPlan, TrajectoryPlan
from longpole_sim.scenario import Scenario
from longpole_sim.scenarios import SCENARIOS
from longpole_sim.workload import Run, make_run, plan_run, plan_steps

__all__ = [
    "LIBRARY",
    "SCENARIOS",
    "Cluster",
    "PartPlan",
    "Run",
    "Scenario",
    "StagePlan",
    "StepPlan",
    "TrajectoryPlan",
    "make_run",
    "plan_run",
    "plan_steps",
]
