"""Every scenario deserves its verdict, on any cluster and at any speed."""

import statistics

import pytest

from longpole_sim import Cluster, make_run, plan_run
from longpole_sim.library import LIBRARY
from longpole_sim.scenarios import SCENARIOS
from longpole_sim.truth import find_truth


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize(
    "cluster", [Cluster(), Cluster(nodes=1, gpus_per_node=8)], ids=["two_nodes", "one_node"]
)
@pytest.mark.parametrize("speed", [1.0, 8.0])
def test_a_demo_deserves_its_verdict(name: str, cluster: Cluster, speed: float) -> None:
    for seed in (0, 11):
        run = make_run(name, seed, cluster=cluster, speed=speed)
        truth = find_truth(run, list(plan_run(run, 4)))
        assert truth.verdict == SCENARIOS[name].verdict, truth


@pytest.mark.parametrize("name", sorted(set(LIBRARY) - set(SCENARIOS)))
def test_as_it_is_a_scenario_is_no_example_of_something_else(name: str) -> None:
    scenario = LIBRARY[name]
    run = make_run(name, 3)
    truth = find_truth(run, list(plan_run(run, scenario.first_step - 1 + scenario.steps)))
    assert (truth.verdict, truth.cause) == (scenario.verdict, scenario.cause), truth


def test_the_default_step_takes_about_ten_seconds() -> None:
    for name in SCENARIOS:
        plans = list(plan_run(make_run(name), 4))
        assert 7.0 <= statistics.fmean(plan.duration_s for plan in plans) <= 14.0, name
