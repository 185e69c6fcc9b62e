"""The ledger of one step: each stage's seconds against what is usual in this run."""

from collections.abc import Mapping

from longpole.conventions import stages
from longpole_dashboards.figures.bars import order_stages
from longpole_dashboards.figures.figure import Figure, bar_trace, scatter_trace
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import format_change, format_duration, format_ratio
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import ROLES, ThemeName, stage_colour, stage_label
from longpole_server.model.step import Step

# Room for the words behind the longest bar, however narrow the chart is.
_LABEL_PX = 108


def step_ledger(step: Step, usual_s: Mapping[str, float], *, theme: ThemeName) -> Figure:
    """Draw exclusive seconds per stage with a mark at `usual_s`, the run's median of that stage."""
    seconds = {stage.stage: stage.exclusive_s for stage in step.stages}
    if step.unattributed_s is not None:
        seconds[stages.UNATTRIBUTED] = step.unattributed_s
    if not seconds:
        return message_figure(wrap(not_reported("stages"), 40), theme)
    roles = ROLES[theme]
    names = order_stages(set(seconds))
    total = step.duration_s
    labels = [_label(seconds[name], total) for name in names]
    figure = Figure(
        bar_trace(
            orientation="h",
            x=[seconds[name] for name in names],
            y=list(range(len(names))),
            width=0.66,
            marker={"color": [stage_colour(name) for name in names]},
            customdata=[
                [
                    stage_label(name),
                    format_duration(seconds[name]),
                    format_duration(usual_s.get(name)),
                    _change(seconds[name], usual_s.get(name)),
                ]
                for name in names
            ],
            hovertemplate=(
                "<b>%{customdata[0]}</b>  %{customdata[1]}"
                "<br>usual %{customdata[2]}, %{customdata[3]}<extra></extra>"
            ),
        )
    )
    known = [(row, usual_s[name]) for row, name in enumerate(names) if name in usual_s]
    figure.add_trace(
        scatter_trace(
            x=[usual for _, usual in known],
            y=[row for row, _ in known],
            mode="markers",
            marker={
                "symbol": "line-ns",
                "size": 13,
                "line": {"width": 2, "color": roles.text},
            },
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        scatter_trace(
            x=[max(seconds[name], usual_s.get(name, 0.0)) for name in names],
            y=list(range(len(names))),
            mode="text",
            text=[f"   {label}" for label in labels],
            textposition="middle right",
            textfont={"size": 11, "color": roles.text},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    longest = max([*seconds.values(), *(usual for _, usual in known)])
    figure.update_layout(
        template=template(theme),
        height=34 + 26 * len(names),
        margin={"l": 92, "r": _LABEL_PX, "t": 2, "b": 24},
        xaxis={
            "range": [0, longest * 1.03],
            "ticksuffix": " s",
            "showgrid": True,
            "fixedrange": True,
            "nticks": 5,
        },
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [stage_label(name) for name in names],
            "range": [len(names) - 0.4, -0.6],
            "showgrid": False,
            "fixedrange": True,
        },
    )
    return figure


def _label(seconds: float, total: float | None) -> str:
    if not total:
        return format_duration(seconds)
    share = seconds / total
    return f"{format_duration(seconds)}   {format_ratio(share, 0 if share >= 0.095 else 1)}"


def _change(value: float, usual: float | None) -> str:
    return format_change(value / usual - 1) if usual else "no earlier step"
