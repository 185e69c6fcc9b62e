"""GPU heat-maps for pages: the field that was asked for, or the nearest one that is reported."""

import numpy as np
from dash.development.base_component import Component

from longpole_dashboards.components.notice import absent
from longpole_dashboards.figures.gpus import FIELD_LABELS, MAX_LANES
from longpole_dashboards.glossary import not_reported
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


def heat_words(asked: str, heatmap: GpuHeatmap) -> Component | None:
    """Return what a viewer must know about the picture: another field, or more GPUs than rows."""
    if not heatmap.lanes:
        return absent(not_reported("gpus", "GPUs"))
    words = list[str]()
    if heatmap.field != asked:
        words.append(
            f"These GPUs do not report {FIELD_LABELS[asked]}; "
            f"{FIELD_LABELS[heatmap.field]} is shown."
        )
    if len(heatmap.lanes) > MAX_LANES:
        words.append(f"The first {MAX_LANES} of {len(heatmap.lanes)} GPUs are shown.")
    return absent(" ".join(words)) if words else None
