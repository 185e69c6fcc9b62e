import numpy as np
import pytest

from longpole_server.analysis.gaps import find_gaps
from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.step import Gap
from support.steps import NS, inputs, loop, span

STEP = assemble_step(inputs([loop(0, 10), span("gen", 0, 6), span("update_weights", 6, 10)]))


def heatmap(rows: list[list[float]], roles: list[str], bin_ns: int = NS) -> GpuHeatmap:
    lanes = tuple(
        RunGpu("run", 1, "node", f"GPU-{index}", index, role, 0, None, "pid")
        for index, role in enumerate(roles)
    )
    values = np.array(rows, dtype=np.float32)
    return GpuHeatmap("utilization_ratio", lanes, 0, bin_ns, values)


def test_idle_stretch_is_cut_at_stages():
    idle_from_4 = [0.9] * 4 + [0.0] * 6
    busy = [0.9] * 10
    gaps = find_gaps(STEP, heatmap([idle_from_4, idle_from_4, busy], ["hybrid"] * 3))
    assert gaps == (
        Gap(6 * NS, 10 * NS, "update_weights", "hybrid", 2, 8.0),
        Gap(4 * NS, 6 * NS, "gen", "hybrid", 2, 4.0),
    )


def test_roles_apart_and_unmeasured_bins():
    trainer = [0.0] * 3 + [float("nan")] * 3 + [0.9] * 4
    rollout = [0.9] * 8 + [0.01] * 2
    gaps = find_gaps(STEP, heatmap([trainer, rollout], ["trainer", "rollout"]))
    assert [(gap.role, gap.stage, gap.gpu_seconds) for gap in gaps] == [
        ("trainer", "gen", 3.0),
        ("rollout", "update_weights", 2.0),
    ]


def test_short_stretches_do_not_count():
    row = [0.9, 0.0, 0.9, 0.0] * 5
    assert find_gaps(STEP, heatmap([row], ["hybrid"], NS // 2)) == ()


def test_beyond_the_step():
    gaps = find_gaps(STEP, heatmap([[0.9] * 9 + [0.0] * 11], ["hybrid"]))
    assert [gap.gpu_seconds for gap in gaps] == [pytest.approx(1.0)]


def test_open_step_and_empty_heatmap():
    opened = assemble_step(inputs([span("gen", 0, 6)]))
    assert find_gaps(opened, heatmap([[0.0] * 10], ["hybrid"])) == ()
    empty = GpuHeatmap("utilization_ratio", (), 0, NS, np.zeros((0, 0), dtype=np.float32))
    assert find_gaps(STEP, empty) == ()
