"""How samples are distributed on two sides: medians, tails and longest on one axis a figure."""

from collections.abc import Sequence

from longpole_dashboards.figures.figure import Figure, scatter_trace
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import format_change, format_count, format_duration
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName
from longpole_server.model.comparison import Quantiles, SampleDistribution

_LABELS = {"duration_s": "seconds of a sample", "output_tokens": "output tokens of a sample"}
# Field, what people read, symbol: told apart by shape as well.
_MARKS = (
    ("p50", "median", "circle"),
    ("p90", "90 %", "diamond"),
    ("p99", "99 %", "diamond-open"),
    ("max", "longest", "line-ns-open"),
)
_BLOCK_PX = 118


def quantiles(found: Sequence[SampleDistribution], *, theme: ThemeName) -> Figure:
    """Draw one block a figure of the samples: before above after, on one axis."""
    known = [each for each in found if each.before.count and each.after.count]
    if not known:
        return message_figure(wrap(not_reported("trajectories"), 44), theme)
    figure = Figure()
    for index, each in enumerate(known):
        _draw(figure, each, index, len(known), theme)
    figure.update_layout(
        template=template(theme),
        height=_BLOCK_PX * len(known) + 8,
        margin={"l": 52, "r": 26, "t": 18, "b": 24},
        uirevision="quantiles",
    )
    return figure


def _draw(
    figure: Figure, each: SampleDistribution, index: int, count: int, theme: ThemeName
) -> None:
    roles = ROLES[theme]
    suffix = "" if index == 0 else str(index + 1)
    top = 1 - index / count
    bottom = top - 1 / count + 0.16
    for row, (side, colour) in enumerate(((each.before, roles.second), (each.after, roles.accent))):
        values = _values(side)
        figure.add_trace(
            scatter_trace(
                x=values,
                y=[row] * len(values),
                xaxis=f"x{suffix}",
                yaxis=f"y{suffix}",
                mode="lines+markers",
                line={"width": 1.5, "color": colour},
                marker={
                    "symbol": [symbol for _, _, symbol in _MARKS],
                    "size": [11, 9, 9, 12],
                    "color": colour,
                    "line": {"width": 2, "color": colour},
                },
                customdata=_describe(each, row),
                hovertemplate=(
                    "%{customdata[0]}, %{customdata[1]}: <b>%{customdata[2]}</b>"
                    "<br>%{customdata[3]}<extra></extra>"
                ),
            )
        )
    figure.update_layout(
        {
            f"xaxis{suffix}": {
                "anchor": f"y{suffix}",
                "rangemode": "tozero",
                "showgrid": True,
                "nticks": 7,
                "ticksuffix": " s" if each.unit == "s" else "",
                "tickformat": "" if each.unit == "s" else "~s",
                "fixedrange": True,
            },
            f"yaxis{suffix}": {
                "anchor": f"x{suffix}",
                "domain": [max(0.0, bottom), top - 0.07],
                "tickmode": "array",
                "tickvals": [0, 1],
                "ticktext": ["before", "after"],
                "range": [1.6, -0.6],
                "showgrid": False,
                "fixedrange": True,
            },
        }
    )
    figure.add_annotation(
        text=f"{_LABELS[each.metric]}: {_words(each)}",
        xref="paper",
        yref="paper",
        x=0,
        y=top - 0.05,
        xanchor="left",
        yanchor="bottom",
        showarrow=False,
        font={"size": 11, "color": roles.muted},
    )


def _values(side: Quantiles) -> list[float | None]:
    return [getattr(side, field) for field, _, _ in _MARKS]


def _show(value: float | None, unit: str) -> str:
    return format_duration(value) if unit == "s" else format_count(value)


def _words(each: SampleDistribution) -> str:
    changes = [
        f"{label} {format_change(after / before - 1)}"
        for (_, label, _), before, after in zip(
            _MARKS, _values(each.before), _values(each.after), strict=True
        )
        if before and after is not None and label in ("median", "99 %")
    ]
    return ", ".join(changes)


def _describe(each: SampleDistribution, row: int) -> list[list[str]]:
    side = (each.before, each.after)[row]
    name = ("before", "after")[row]
    return [
        [name, label, _show(value, each.unit), f"{format_count(side.count)} samples"]
        for (_, label, _), value in zip(_MARKS, _values(side), strict=True)
    ]
