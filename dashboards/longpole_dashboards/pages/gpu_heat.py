"""GPU heat-maps for pages: the field that was asked for, or the nearest one that is reported."""

from collections.abc import Sequence

import numpy as np
from dash.development.base_component import Component

from longpole_dashboards.components.notice import absent
from longpole_dashboards.figures.gpus import FIELD_LABELS, MAX_LANES, kept_extreme
from longpole_dashboards.glossary import not_reported, silent_part
from longpole_dashboards.pages.lane_filter import Held, LaneFilter
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.service import Service

# Older GPUs and drivers do not report activity; utilisation is always there.
FALLBACK_FIELD = "utilization_ratio"
ALL_LANES = "all"


def read_heatmap(
    service: Service, run_id: str, field: str, span_ns: tuple[int, int], max_bins: int
) -> GpuHeatmap:
    """Return a GPU field over a time; utilisation where nobody reports that field."""
    heatmap = service.get_gpu_heatmap(run_id, field, *span_ns, max_bins)
    if field == FALLBACK_FIELD or not heatmap.lanes or np.isfinite(heatmap.values).any():
        return heatmap
    return service.get_gpu_heatmap(run_id, FALLBACK_FIELD, *span_ns, max_bins)


def lane_choices(gpus: Sequence[Held], replicas: Sequence[str] = ()) -> list[dict[str, object]]:
    """Return what may be chosen: everything, a role, a node, or a replica."""
    roles = sorted({gpu.role for gpu in gpus if gpu.role})
    hosts = sorted({gpu.host for gpu in gpus})
    return [
        {"value": ALL_LANES, "label": "all GPUs"},
        *({"value": f"role:{role}", "label": f"role {role}"} for role in roles if len(roles) > 1),
        *({"value": f"node:{host}", "label": host} for host in hosts if len(hosts) > 1),
        *({"value": f"replica:{name}", "label": name} for name in replicas if len(replicas) > 1),
    ]


def heat_words(asked: str, heatmap: GpuHeatmap, *, is_part: bool = False) -> Component | None:
    """Return what a viewer must know about the picture: another field, or more GPUs than rows."""
    if not heatmap.lanes:
        return absent(silent_part("GPUs") if is_part else not_reported("gpus", "GPUs"))
    words = list[str]()
    if heatmap.field != asked:
        where = " in this part of the step" if is_part else ""
        words.append(
            f"These GPUs do not report {FIELD_LABELS[asked]}{where}; "
            f"{FIELD_LABELS[heatmap.field]} is shown."
        )
    if len(heatmap.lanes) > MAX_LANES:
        size = -(-len(heatmap.lanes) // MAX_LANES)
        words.append(
            f"{len(heatmap.lanes):,} GPUs: a row is {size} neighbours, "
            f"and shows the {kept_extreme(heatmap.field)} of them."
        )
    return absent(" ".join(words)) if words else None


def lane_words(
    asked: str, heatmap: GpuHeatmap, shown: GpuHeatmap, only: LaneFilter, *, is_part: bool = False
) -> list[Component]:
    """Return `heat_words` of what is shown, and what must be said of the choice of GPUs.

    Args:
        asked: The field that was asked for.
        heatmap: All GPUs.
        shown: Those of the choice.
        only: The choice.
        is_part: Whether a part of the step was read: of the rest GPUs may have reported.
    """
    said = only.say_gpus(has_any=bool(heatmap.lanes), has_shown=bool(shown.lanes))
    # Of none that is left nothing else is to be said.
    usual = None if heatmap.lanes and not shown.lanes else heat_words(asked, shown, is_part=is_part)
    return [each for each in (usual, absent(said) if said else None) if each is not None]
