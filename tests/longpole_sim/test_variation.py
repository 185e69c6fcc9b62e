import dataclasses

import pytest

from longpole_sim.fitting import CONDITIONS, fits
from longpole_sim.library import LIBRARY
from longpole_sim.truth import find_truth
from longpole_sim.variation import draw_example

# Kinds that differ in how they are planned.
KINDS = (
    "long_tail",
    "critic",
    "tool_slow",
    "preemption",
    "regression_sync",
    "async_serial",
    "resume",
)


@pytest.mark.parametrize("name", KINDS)
def test_the_label_of_what_is_drawn_is_true(name: str) -> None:
    for seed in range(3):
        example = draw_example(name, seed)
        truth = find_truth(example.run, example.plans)
        assert (truth.verdict, truth.cause) == (LIBRARY[name].verdict, LIBRARY[name].cause)
        assert truth.doubts == ()


@pytest.mark.parametrize("name", KINDS)
def test_same_seed_same_run(name: str) -> None:
    one, same, other = draw_example(name, 4), draw_example(name, 4), draw_example(name, 5)
    assert one == same
    assert one.plans != other.plans


def test_runs_of_a_kind_differ_in_scale() -> None:
    examples = [draw_example("sync_slow", seed) for seed in range(12)]
    assert len({example.run.cluster.gpu_count for example in examples}) > 2
    seconds = [example.plans[1].duration_s for example in examples]
    assert max(seconds) > 5 * min(seconds)


def test_fields_can_be_fixed() -> None:
    run = draw_example("long_tail", 1, {"mode": "colocate_async", "group_size": 4}).run
    assert (run.scenario.mode, run.scenario.group_size) == ("colocate_async", 4)


def test_every_finding_that_a_scenario_deserves_fits_it() -> None:
    for scenario in LIBRARY.values():
        assert all(fits(code, scenario) for code in scenario.findings), scenario.name
        assert not set(scenario.findings) & set(scenario.no_findings), scenario.name


def test_nothing_fits_a_plain_run() -> None:
    plain = dataclasses.replace(LIBRARY["sync_slow"], findings=())
    assert [code for code in CONDITIONS if fits(code, plain)] == []
    assert fits("shape.tokens", plain)
