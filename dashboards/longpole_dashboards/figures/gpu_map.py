"""Every GPU of the cluster as one cell: a strip of cells a node, marks on what wants a look."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_dashboards.figures.figure import Figure, Trace, heatmap_trace, scatter_trace
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName

# Widths in cells: the name of a node, and the space after its strip.
_LABEL_CELLS, _SPACE_CELLS = 4, 1
# Nodes below each other before another column of them begins, and the most columns.
_ROWS_A_COLUMN, _MAX_COLUMNS = 6, 4
_MAX_NAME = 15
# Values are written into the cells of a cluster of so many GPUs.
_MAX_WRITTEN = 128
_MARGIN_PX = 14
# Sign of a condition, its size, and the role of its colour: told apart by shape as well.
MARKS = {
    "silent": ("x-thin", "bad"),
    "throttled": ("triangle-up", "warn"),
    "idle": ("circle-open", "text"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU: where it is, its value (NaN: not reported), what is the matter, and its words."""

    host: str
    index: int
    value: float
    condition: str
    words: str


@dataclass(frozen=True, slots=True)
class Scale:
    """How values become colours: `labels` names whole numbers, else it is one of 0 to `top`."""

    top: float
    unit: str
    labels: tuple[str, ...] = ()
    colours: tuple[str, ...] = ()


def gpu_map(
    cells: Sequence[Cell], scale: Scale, *, selected: str | None, theme: ThemeName
) -> Figure:
    """Draw the map; `customdata` of a cell is its node."""
    if not cells:
        return message_figure(wrap(not_reported("gpus", "GPUs"), 60), theme)
    hosts = sorted({cell.host for cell in cells})
    strip = max(cell.index for cell in cells) + 1
    columns = min(_MAX_COLUMNS, max(1, -(-len(hosts) // _ROWS_A_COLUMN)))
    columns = max(columns, min(2, len(hosts)))
    num_rows = -(-len(hosts) // columns)
    block = _LABEL_CELLS + strip + _SPACE_CELLS
    at = {
        host: (number % num_rows, (number // num_rows) * block + _LABEL_CELLS)
        for number, host in enumerate(hosts)
    }
    shape = (num_rows, columns * block)
    values: NDArray[np.float32] = np.full(shape, np.nan, dtype=np.float32)
    words = np.full(shape, "", dtype=object)
    owners = np.full(shape, "", dtype=object)
    for cell in cells:
        row, left = at[cell.host]
        values[row, left + cell.index] = cell.value
        words[row, left + cell.index] = cell.words
        owners[row, left + cell.index] = cell.host
    figure = Figure(
        heatmap_trace(
            z=values,
            text=words,
            customdata=owners,
            zmin=-0.5 if scale.labels else 0,
            zmax=len(scale.labels) - 0.5 if scale.labels else scale.top,
            colorscale=_colours(scale, theme),
            xgap=2,
            ygap=3,
            hoverongaps=False,
            hovertemplate="%{text}<extra></extra>",
            texttemplate="%{z:.0f}" if len(cells) <= _MAX_WRITTEN and not scale.labels else "",
            textfont={"size": 10.5},
            showscale=not scale.labels,
            colorbar={
                "ticksuffix": f" {scale.unit}",
                "nticks": 3,
                "thickness": 6,
                "outlinewidth": 0,
                "xpad": 6,
                "len": 1.0,
                "tickfont": {"size": 10, "color": ROLES[theme].faint},
            },
        )
    )
    _draw_unreported(figure, cells, at, theme)
    _draw_marks(figure, cells, at, theme)
    row_px = max(17, min(30, 460 // num_rows))
    figure.update_layout(
        template=template(theme),
        height=max(96, row_px * num_rows + _MARGIN_PX),
        margin={"l": 4, "r": 56, "t": 4, "b": 6},
        uirevision="map",
        dragmode=False,
        xaxis={"range": [-0.5, shape[1] - 0.5], "visible": False, "fixedrange": True},
        yaxis={"range": [num_rows - 0.5, -0.5], "visible": False, "fixedrange": True},
    )
    figure.add_trace(_names(hosts, at, selected, theme))
    return figure


def _colours(scale: Scale, theme: ThemeName) -> list[tuple[float, str]]:
    if not scale.labels:
        heat = ROLES[theme].heat
        return [(at / (len(heat) - 1), stop) for at, stop in enumerate(heat)]
    count = len(scale.labels)
    return [
        (edge / count, scale.colours[number])
        for number in range(count)
        for edge in (number, number + 1)
    ]


def _names(
    hosts: Sequence[str], at: dict[str, tuple[int, int]], selected: str | None, theme: ThemeName
) -> Trace:
    """Return the nodes' names as one trace: each annotation is measured by itself, 3 ms."""
    roles = ROLES[theme]
    shown = [host if len(host) <= _MAX_NAME else f"…{host[1 - _MAX_NAME :]}" for host in hosts]
    return scatter_trace(
        x=[at[host][1] - 0.75 for host in hosts],
        y=[at[host][0] for host in hosts],
        mode="text",
        text=[
            f"<b>{name}</b>" if host == selected else name
            for host, name in zip(hosts, shown, strict=True)
        ],
        textposition="middle left",
        textfont={
            "size": 11,
            "color": [roles.accent if host == selected else roles.muted for host in hosts],
        },
        cliponaxis=False,
        hoverinfo="skip",
    )


def _draw_unreported(
    figure: Figure,
    cells: Sequence[Cell],
    at: dict[str, tuple[int, int]],
    theme: ThemeName,
) -> None:
    """Outline cells without a value: there is a GPU, and nobody says how it is."""
    missing = [cell for cell in cells if not np.isfinite(cell.value)]
    if not missing:
        return
    figure.add_trace(
        scatter_trace(
            x=[at[cell.host][1] + cell.index for cell in missing],
            y=[at[cell.host][0] for cell in missing],
            mode="markers",
            marker={
                "symbol": "square-open",
                "size": 13,
                "color": ROLES[theme].line,
                "line": {"width": 1},
            },
            text=[cell.words for cell in missing],
            customdata=[cell.host for cell in missing],
            hovertemplate="%{text}<extra></extra>",
        )
    )


def _draw_marks(
    figure: Figure,
    cells: Sequence[Cell],
    at: dict[str, tuple[int, int]],
    theme: ThemeName,
) -> None:
    roles = ROLES[theme]
    # Beside the number where one is written.
    shift = 0.34 if len(cells) <= _MAX_WRITTEN else 0.0
    for condition, (symbol, role) in MARKS.items():
        marked = [cell for cell in cells if cell.condition == condition]
        if not marked:
            continue
        colour = getattr(roles, role)
        figure.add_trace(
            scatter_trace(
                x=[
                    at[cell.host][1] + cell.index + (condition != "silent") * shift
                    for cell in marked
                ],
                y=[at[cell.host][0] for cell in marked],
                mode="markers",
                name=condition,
                marker={
                    "symbol": symbol,
                    "size": 9,
                    "color": colour,
                    "line": {"width": 2 if symbol != "triangle-up" else 1, "color": colour},
                },
                hoverinfo="skip",
            )
        )
