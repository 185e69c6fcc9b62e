"""One very large pretend run: 10,000 steps in a day, 1,024 GPUs, 8,192 samples in every step."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from longpole.conventions import stages
from longpole_server.model.cluster import ClusterNow, GpuState
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import StageLane, Step
from longpole_server.model.trajectory import Trajectory
from longpole_server.service import StepDetail
from support.dashboard_fake_cluster import make_node_gpus, make_nodes
from support.dashboard_fake_service import FakeService
from support.dashboard_workload import SYNC_STAGES, PlannedStep, RunSpec, S, make_gpus

LARGE_RUN = "large/10k-steps"
NUM_STEPS = 10_000
NUM_NODES = 128
SAMPLES_A_STEP = 8_192
LANE_SPANS = 20_000
NUM_PROCESSES = 1_024
_SHRUNK = tuple((stage, seconds * 0.05) for stage, seconds in SYNC_STAGES)


class LargeService(FakeService):
    """The pretend service with that run alone."""

    def __init__(self, now_ns: int) -> None:
        spec = RunSpec(
            LARGE_RUN,
            "large-10k-steps",
            seed=11,
            start_ns=now_ns - 115_000 * S,
            stage_seconds=_SHRUNK,
            num_steps=NUM_STEPS,
            hosts=tuple(f"node-{at:03}" for at in range(NUM_NODES)),
            samples_per_step=SAMPLES_A_STEP,
        )
        super().__init__(now_ns, (spec,), 0, plan_limit=NUM_STEPS)
        # The last step has just begun.
        self._now_ns = self._plans[LARGE_RUN][-1].start_ns + 3 * S
        self.changes.publish(self._now_ns)
        self._large = spec
        self._steps: tuple[int, Sequence[Step]] = (0, ())
        self._samples = lru_cache(4)(super()._trajectories)
        # Made of all samples of three steps: seconds, which no real store works for it.
        self._clusters = lru_cache(1)(self._make_cluster)

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        revision = self.get_revision(run_id)
        if self._steps[0] != revision:
            self._steps = (revision, super().list_steps(run_id))
        return [
            step
            for step in self._steps[1]
            if (first is None or step.step >= first) and (last is None or step.step <= last)
        ]

    def get_step(self, run_id: str, step: int) -> StepDetail:
        """Return the step with 20,000 windows of 1,024 other processes."""
        detail = super().get_step(run_id, step)
        return replace(detail, lanes=_make_lanes(detail.step))

    def get_gpu_heatmap(
        self, run_id: str, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        bin_ns = max(S, -(-(end_ns - start_ns) // max_bins))
        bins = max(1, -(-(end_ns - start_ns) // bin_ns))
        lanes = make_gpus(self._spec(run_id))
        rng = np.random.default_rng(5)
        values = rng.uniform(0.4, 0.9, (len(lanes), bins)).astype(np.float32)
        # One GPU stands still for a while.
        values[len(lanes) // 3, bins // 3 : bins // 2] = 0.0
        return GpuHeatmap(field, lanes, start_ns, bin_ns, values)

    def get_cluster_heatmap(
        self, field: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap:
        return self.get_gpu_heatmap(LARGE_RUN, field, start_ns, end_ns, max_bins)

    def get_cluster(self) -> ClusterNow:
        return self._clusters(self.now_ns())

    def _make_cluster(self, now_ns: int) -> ClusterNow:
        states: list[GpuState] = make_node_gpus(
            self._large, list(self._known(LARGE_RUN)[-3:]), now_ns
        )
        states.sort(key=lambda state: (state.now.host, state.now.gpu_index))
        return ClusterNow(now_ns, make_nodes(states, now_ns), tuple(states))

    def _known(self, run_id: str) -> tuple[PlannedStep, ...]:
        plan = self._plans[run_id]
        if plan[-1].end_ns <= self.now_ns():
            return plan
        return super()._known(run_id)

    def _trajectories(self, run_id: str, step: int) -> tuple[Trajectory, ...]:
        return self._samples(run_id, step)


def _make_lanes(step: Step) -> tuple[StageLane, ...]:
    per_process = LANE_SPANS // NUM_PROCESSES + 1
    length_ns = (step.end_ns or step.start_ns + S) - step.start_ns
    names = (stages.GEN, stages.OLD_LOG_PROB, stages.REF, stages.UPDATE_ACTOR)
    slot_ns = length_ns // per_process
    return tuple(
        StageLane(
            stage=names[at * len(names) // per_process],
            role="trainer",
            host=f"node-{process // 8:03}",
            pid=1_000 + process,
            start_ns=step.start_ns + at * slot_ns,
            end_ns=step.start_ns + at * slot_ns + slot_ns * 9 // 10,
        )
        for process in range(NUM_PROCESSES)
        for at in range(per_process)
    )
