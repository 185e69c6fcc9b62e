"""GPU heat-maps for pages: the field that was asked for, or the nearest one that is reported."""

import numpy as np
from dash.development.base_component import Component

from longpole_dashboards.components.notice import absent
from longpole_dashboards.figures.gpus import FIELD_LABELS
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.service import Service

# Older GPUs and drivers do not report activity; utilisation is always there.
FALLBACK_FIELD = "utilization_ratio"


def read_heatmap(
    service: Service, run_id: str, field: str, span_ns: tuple[int, int], max_bins: int
) -> GpuHeatmap:
    """Return a GPU field over a time; utilisation where nobody reports that field."""
    heatmap = service.get_gpu_heatmap(run_id, field, *span_ns, max_bins)
    if field == FALLBACK_FIELD or not heatmap.lanes or np.isfinite(heatmap.values).any():
        return heatmap
    return service.get_gpu_heatmap(run_id, FALLBACK_FIELD, *span_ns, max_bins)


def substitute_words(asked: str, heatmap: GpuHeatmap) -> Component | None:
    """Return what to say when another field is shown than was asked for."""
    if heatmap.field == asked:
        return None
    return absent(
        f"These GPUs do not report {FIELD_LABELS[asked]}; {FIELD_LABELS[heatmap.field]} is shown."
    )
