import numpy as np
import pytest

from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.step import StageTime, Step
from longpole_server.read import GpuWork
from longpole_server.service.gpu_windows import average_windows, describe_gpus
from support.server_runs import RunScript

RUN = RunScript("run")


def make_stage(name: str, *windows: tuple[float, float]) -> StageTime:
    bounds = tuple((RUN.at(start_s), RUN.at(end_s)) for start_s, end_s in windows)
    seconds = sum(end_s - start_s for start_s, end_s in windows)
    return StageTime(name, seconds, seconds, None, None, None, (), "span", bounds)


def make_heatmap(field: str, rows: list[list[float]], roles: list[str]) -> GpuHeatmap:
    lanes = tuple(
        RunGpu("run", 1, "node-0", f"GPU-{i}", i, role, RUN.at(0), None, "gpu_ids")
        for i, role in enumerate(roles)
    )
    return GpuHeatmap(field, lanes, RUN.at(0), 1_000_000_000, np.array(rows, dtype=np.float32))


def make_step(*stages: StageTime) -> Step:
    return Step("run", 1, 1, RUN.at(0), RUN.at(4), 4.0, "loop", stages, 0.0, ())


def test_fields_are_averaged_by_stage_and_role():
    heatmap = make_heatmap(
        "utilization_ratio",
        [[1.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, np.nan], [0.0, 0.0, 1.0, 1.0]],
        ["rollout", "rollout", "trainer"],
    )
    step = make_step(make_stage("gen", (0.0, 2.0)), make_stage("update_actor", (2.0, 4.0)))
    windows = {
        (window.stage, window.role): window
        for window in average_windows(step, {"utilization_ratio": heatmap})
    }
    gen = windows["gen", "rollout"]
    assert (gen.gpu_count, gen.seconds) == (2, 2.0)
    assert gen.utilization_ratio == pytest.approx(0.75)
    assert gen.power_watts is None
    assert windows["gen", "trainer"].utilization_ratio == 0.0
    # What was not measured is left out, not taken for idle.
    assert windows["update_actor", "rollout"].utilization_ratio == 0.0
    assert windows["update_actor", "trainer"].utilization_ratio == 1.0


def test_a_stage_of_several_windows_counts_each():
    heatmap = make_heatmap("utilization_ratio", [[1.0, 0.0, 1.0, 0.0]], ["hybrid"])
    step = make_step(make_stage("sleep_wake", (0.0, 1.0), (2.0, 3.0)))
    window, _ = average_windows(step, {"utilization_ratio": heatmap})
    assert (window.stage, window.utilization_ratio, window.seconds) == ("sleep_wake", 1.0, 2.0)


def test_unmeasured_is_unknown():
    heatmap = make_heatmap("utilization_ratio", [[np.nan] * 4], ["hybrid"])
    window, *_ = average_windows(
        make_step(make_stage("gen", (0.0, 2.0))), {"utilization_ratio": heatmap}
    )
    assert window.utilization_ratio is None


def test_without_gpus_there_are_no_windows():
    heatmap = make_heatmap("utilization_ratio", [], [])
    assert average_windows(make_step(make_stage("gen", (0.0, 2.0))), {"x": heatmap}) == ()
    assert average_windows(make_step(), {}) == ()


def test_what_no_stage_covers_has_a_window_of_its_own():
    heatmap = make_heatmap("sm_active_ratio", [[0.9, 0.1, 0.9, 0.3]], ["hybrid"])
    step = make_step(make_stage("gen", (0.0, 1.0)), make_stage("update_actor", (2.0, 3.0)))
    windows = {
        window.stage: window for window in average_windows(step, {"sm_active_ratio": heatmap})
    }
    assert windows["unattributed"].seconds == 2.0
    assert windows["unattributed"].sm_active_ratio == pytest.approx(0.2)


def test_gpus_are_described_with_or_without_samples():
    lanes = make_heatmap("sm_active_ratio", [[0.0], [0.0]], ["trainer", "rollout"]).lanes
    work = GpuWork("GPU-0", 6.0, 4.0, 1.9e9, 0.5, 0x40, RUN.at(3))
    first, second = describe_gpus(lanes, [work])
    assert (first.busy_s, first.idle_s, first.role) == (6.0, 4.0, "trainer")
    assert (first.throttled_ratio, first.throttle_reasons) == (0.5, ("hardware thermal",))
    assert (second.busy_s, second.reported_to_ns, second.role) == (None, None, "rollout")
