"""What the pretend runs' rollout engines report."""

from collections.abc import Sequence

import numpy as np

from longpole.conventions import stages
from longpole_server.model.engines import EngineLanes
from support.dashboard_workload import PlannedStep, RunSpec, S

NUM_REPLICAS = 4


def make_engine_lanes(
    spec: RunSpec, steps: Sequence[PlannedStep], start_ns: int, end_ns: int, max_bins: int
) -> EngineLanes:
    """Return engines that fill up and run dry in every gen; none of runs without samples."""
    bin_ns = max(2 * S, -(-(end_ns - start_ns) // max_bins))
    num_bins = max(1, -(-(end_ns - start_ns) // bin_ns))
    replicas = tuple(f"replica-{i}" for i in range(NUM_REPLICAS)) if spec.has_trajectories else ()
    shape = (len(replicas), num_bins)
    centres = start_ns + np.arange(num_bins, dtype=np.int64) * bin_ns + bin_ns // 2
    busy = np.zeros(num_bins, dtype=np.float32)
    for step in steps:
        for stage, begin_ns, finish_ns in step.windows:
            if stage == stages.GEN:
                inside = (centres >= begin_ns) & (centres < finish_ns)
                busy[inside] = 1 - (centres[inside] - begin_ns) / (finish_ns - begin_ns)
    slower = np.linspace(1, 1.6, len(replicas), dtype=np.float32)[:, None]
    running = np.minimum(busy * slower, 1) * 64
    return EngineLanes(
        replicas,
        start_ns,
        bin_ns,
        kv_usage_ratio=np.broadcast_to(busy * 0.9, shape).astype(np.float32),
        running=np.broadcast_to(running, shape).astype(np.float32),
        waiting=np.broadcast_to(np.maximum(busy - 0.8, 0) * 40, shape).astype(np.float32),
        preemptions=np.where(np.broadcast_to(busy, shape) > 0.93, 2, 0).astype(np.float32),
    )
