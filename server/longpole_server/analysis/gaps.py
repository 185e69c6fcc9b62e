"""Idle gaps: stretches in which GPUs stood still though the step ran."""

from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import Gap, Step


def find_gaps(
    step: Step,
    heatmap: GpuHeatmap,
    idle_below_ratio: float = 0.05,
    shortest_s: float = 1.0,
) -> tuple[Gap, ...]:
    """Return idle stretches of the step's GPUs by role and stage, longest GPU-seconds first."""
    raise NotImplementedError
