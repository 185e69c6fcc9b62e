from dataclasses import replace

import pytest

from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import StageSpan
from longpole_server.model.step import StageEnergy, Step
from longpole_server.service.stage_energy import list_moments, sum_energy
from support.steps import NS, inputs, loop, span

GPUS = [
    RunGpu("run", 1, "node", f"GPU-{index}", index, "hybrid", 0, None, "pid") for index in (0, 1)
]


def step_of(spans: list[StageSpan]) -> Step:
    return assemble_step(inputs(spans))


def test_the_stages_of_a_step_share_its_energy_without_remainder() -> None:
    step = step_of([loop(0, 10), span("gen", 0, 4), span("update_actor", 5, 9)])
    joules = {
        (gpu.gpu_uuid, moment): 7000.0 * gpu.gpu_index + 100.0 * moment / NS
        for gpu in GPUS
        for moment in list_moments(step)
    }
    found = {each.stage: each for each in sum_energy(step, GPUS, joules)}
    assert replace(found["gen"], energy_joules=None) == StageEnergy("gen", "hybrid", 2, None)
    assert found["gen"].energy_joules == pytest.approx(800.0)
    assert found["update_actor"].energy_joules == pytest.approx(800.0)
    assert found["unattributed"].energy_joules == pytest.approx(400.0)


def test_a_part_of_the_gpus_is_no_sum_and_roles_are_apart() -> None:
    step = step_of([loop(0, 10), span("gen", 0, 10)])
    joules = {("GPU-0", 0): 5.0, ("GPU-0", 10 * NS): 25.0, ("GPU-1", 0): 9.0}
    assert sum_energy(step, GPUS, joules) == (StageEnergy("gen", "hybrid", 2, None),)
    apart = [GPUS[0], replace(GPUS[1], role="rollout")]
    assert sum_energy(step, apart, joules) == (StageEnergy("gen", "hybrid", 1, 20.0),)
    anew = {("GPU-0", 0): 500.0, ("GPU-0", 10 * NS): 25.0}
    assert sum_energy(step, GPUS, anew) == ()
