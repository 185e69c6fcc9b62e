"""How many samples every rollout replica works on: the one that is left over is seen."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from longpole_dashboards.figures.figure import Figure, heatmap_trace
from longpole_dashboards.figures.folding import fold_rows
from longpole_dashboards.figures.timeline_rows import StepView, offset_s
from longpole_dashboards.formats import NS_PER_S
from longpole_dashboards.theme import ROLES, ThemeName
from longpole_server.model.trajectory import Trajectory

MAX_REPLICA_ROWS = 48
_NUM_BINS = 400


def list_replicas(trajectories: Sequence[Trajectory]) -> list[str]:
    """Return the replicas that made a step's samples, in their order; none where one made all."""
    found = sorted({t.replica for t in trajectories if t.replica is not None})
    return found if len(found) > 1 else []


def draw_replicas(
    figure: Figure, view: StepView, replicas: Sequence[str], yaxis: str, theme: ThemeName
) -> dict[str, Any]:
    """Draw the samples that run on every replica, darkest where none is left."""
    roles = ROLES[theme]
    start_ns, end_ns = view.shown_ns
    edges = np.linspace(start_ns, end_ns, _NUM_BINS + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    counts = np.zeros((len(replicas), _NUM_BINS), dtype=np.float32)
    by_replica: dict[str | None, list[Trajectory]] = {replica: [] for replica in replicas}
    for trajectory in view.trajectories:
        by_replica.get(trajectory.replica, []).append(trajectory)
    for row, replica in enumerate(replicas):
        own = by_replica[replica]
        starts = np.sort(np.array([t.start_ns for t in own], dtype=np.int64))
        ends = np.sort(np.array([t.end_ns for t in own], dtype=np.int64))
        counts[row] = np.searchsorted(starts, middles, "right") - np.searchsorted(
            ends, middles, "right"
        )
    values, size = fold_rows(counts, MAX_REPLICA_ROWS, "most")
    names = list(replicas[::size])
    last = len(roles.heat) - 1
    bin_s = (end_ns - start_ns) / _NUM_BINS / NS_PER_S
    figure.add_trace(
        heatmap_trace(
            name="replicas",
            z=values.astype(np.uint16),
            x0=offset_s(view, start_ns) + bin_s / 2,
            dx=bin_s,
            y=names,
            yaxis=yaxis,
            ygap=1,
            zmin=0,
            zmax=max(1.0, float(values.max())),
            showscale=False,
            # The last sample of a replica is told from none beside hundreds at the beginning.
            colorscale=[((at / last) ** 3, stop) for at, stop in enumerate(roles.heat)],
            hovertemplate="%{y}<br>%{z} samples run at %{x:.1f} s<extra></extra>",
        )
    )
    return {
        "type": "category",
        "tickmode": "array",
        "tickvals": [(len(names) - 1) / 2],
        "ticktext": [f"samples on<br>{len(replicas)} replicas"],
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
    }
