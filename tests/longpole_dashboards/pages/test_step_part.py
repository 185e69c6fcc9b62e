"""What a part of a step says of what was reported, and of what lies outside of it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dataclasses import replace
from typing import Any

import numpy as np

from longpole_dashboards.pages.step_panels import PANELS
from longpole_dashboards.pages.step_reading import StepReading
from longpole_dashboards.reading import Reader
from longpole_server.model.engines import EngineLanes
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import SyncPhase
from longpole_server.service import StepDetail
from support.dashboard_components import words
from support.dashboard_fake_service import LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view, render

STEP = {"run": LIVE_RUN, "step": "20"}
PART = STEP | {"t": "20-30"}
SHORT_NS = 30 * 10**9


class SilentPartService(FakeService):
    """GPUs and engines report only where more than half a minute is looked at."""

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        found = super().get_gpu_heatmap(run_id, field, start_ns, end_ns, max_bins)
        if end_ns - start_ns > SHORT_NS:
            return found
        return replace(found, lanes=(), values=found.values[:0])

    def get_engine_lanes(
        self, run_id: str, start_ns: int, end_ns: int, max_bins: int, attempt: int | None = None
    ) -> EngineLanes:
        found = super().get_engine_lanes(run_id, start_ns, end_ns, max_bins, attempt)
        if end_ns - start_ns > SHORT_NS:
            return found
        none = np.empty((0, found.running.shape[1]), np.float32)
        return EngineLanes((), found.start_ns, found.bin_ns, none, none, none, none)

    def get_step(self, run_id: str, step: int) -> StepDetail:
        return replace(super().get_step(run_id, step), replicas=())


def shown(query: dict[str, str], service: FakeService) -> dict[str, Any]:
    return render(PANELS, service, make_view(query))


def test_what_is_silent_in_a_part_of_a_step_is_not_called_unreported() -> None:
    found = shown(PART, SilentPartService(NOW_NS))
    said = words(found["step-absent.children"])
    assert "GPUs: no report in this part of the step." in said
    assert "Engines: no report in this part of the step." in said
    assert "not reported" not in said
    # All nodes can be chosen all the same.
    everywhere = {choice["value"] for choice in shown(STEP, FakeService(NOW_NS))["step-only.data"]}
    nodes = {value for value in everywhere if value.startswith("node:")}
    assert len(nodes) == 2
    assert nodes <= {choice["value"] for choice in found["step-only.data"]}


def test_a_choice_made_in_a_silent_part_holds_for_the_replicas_of_the_whole_step() -> None:
    service = SilentPartService(NOW_NS)
    reader = Reader(service)
    node = {"only": "node:node-a1"}
    assert not StepReading(reader, make_view(PART | node)).only.narrows_replicas
    whole = StepReading(reader, make_view(STEP | node))
    assert whole.only.replicas == set(whole.engines.replicas)


class SyncOutsideService(FakeService):
    """Moves so many phases of each step's weight sync to before its start."""

    num_before = 0

    def get_step(self, run_id: str, step: int) -> StepDetail:
        found = super().get_step(run_id, step)
        start_ns, end_ns = found.step.start_ns, found.step.end_ns or self.now_ns()
        before = SyncPhase("pause", start_ns - 20, start_ns - 10)
        inside = SyncPhase("transfer", end_ns - 20, end_ns - 10)
        return replace(found, sync_phases=(before,) * self.num_before + (inside,))


def test_phases_of_a_weight_sync_outside_of_the_step_are_counted() -> None:
    service = SyncOutsideService(NOW_NS)
    for num_before, said in ((0, ""), (2, "Sync phases: 2 of 3 of this step ran outside of it.")):
        service.num_before = num_before
        found = words(shown(STEP, service)["step-absent.children"])
        assert said in found
        assert ("Sync phases" in found) == bool(said)
