"""A change of throughput as a waterfall: every part takes over where the one before it ended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_dashboards.figures.figure import Figure, bar_trace, scatter_trace
from longpole_dashboards.figures.template import message_figure, template, wrap
from longpole_dashboards.formats import ABSENT, format_change, format_count, format_value
from longpole_dashboards.theme import ROLES, ThemeName, stage_label, translucent
from longpole_server.model.decomposition import Decomposition, Part

# Parts beyond so many, and smaller than this, are drawn as one.
_MAX_PARTS = 9
_SMALL_LOG = 0.001
_ROW_PX, _MARGIN_PX = 27, 46
UNITS = {
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "tokens_per_s": "tokens/s",
    "steps_per_s_per_gpu": "steps/s/GPU",
    "steps_per_s": "steps/s",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: from `start` to `end`, both a throughput. `detail` says what changed."""

    label: str
    start: float
    end: float
    detail: str

    @property
    def ratio(self) -> float:
        """By how much it changes throughput, minus one."""
        return self.end / self.start - 1


def part_label(part: Part) -> str:
    """Return what people read for a part."""
    if part.kind == "tokens":
        return "tokens a step"
    if part.kind == "gpus":
        return "GPUs"
    if part.kind == "outside":
        return f"{stage_label(part.name)}, between steps"
    return stage_label(part.name)


def rank_parts(parts: Sequence[Part]) -> list[Part]:
    """Return the known parts, the largest change first."""
    known = [part for part in parts if part.log_change is not None]
    return sorted(known, key=lambda part: -abs(part.log_change or 0.0))


def make_bars(decomposition: Decomposition) -> list[Bar]:
    """Return the bars from the throughput before to the one after; they join exactly."""
    level = decomposition.before.loop_throughput
    if level is None:
        return []
    ranked = rank_parts(decomposition.parts)
    shown = [p for p in ranked[:_MAX_PARTS] if abs(p.log_change or 0.0) >= _SMALL_LOG]
    bars = list[Bar]()
    for part in shown:
        end = level * math.exp(part.log_change or 0.0)
        bars.append(Bar(part_label(part), level, end, describe_values(part)))
        level = end
    rest = ranked[len(shown) :]
    if rest:
        end = level * math.exp(sum(part.log_change or 0.0 for part in rest))
        label = part_label(rest[0]) if len(rest) == 1 else f"{len(rest)} smaller parts"
        bars.append(Bar(label, level, end, ""))
    return bars


def describe_values(part: Part) -> str:
    """Return a part's values of both sides: `58.1 s → 53.2 s`."""
    before, after = (_format(value, part.unit) for value in (part.before, part.after))
    return f"{before} → {after}"


def _format(value: float | None, unit: str) -> str:
    return ABSENT if value is None else format_value(value, unit)


def waterfall(decomposition: Decomposition, *, theme: ThemeName) -> Figure:
    """Draw from the throughput before, through every part, to the one after.

    The axis is logarithmic: factors that are equal are equally long, and their order does not
    matter.
    """
    bars = make_bars(decomposition)
    quantity = decomposition.quantity
    if not bars or quantity is None:
        return message_figure(wrap(decomposition.reason or "Nothing changed.", 60), theme)
    roles = ROLES[theme]
    first, last = bars[0].start, bars[-1].end
    names = ["before", *(bar.label for bar in bars), "after"]
    last_row = len(names) - 1
    figure = Figure(
        bar_trace(
            orientation="h",
            base=[min(bar.start, bar.end) for bar in bars],
            x=[abs(bar.end - bar.start) for bar in bars],
            y=list(range(1, last_row)),
            width=0.62,
            marker={"color": [roles.good if b.end >= b.start else roles.bad for b in bars]},
            customdata=[[b.label, format_change(b.ratio), b.detail] for b in bars],
            hovertemplate=(
                "<b>%{customdata[0]}</b>  %{customdata[1]}<br>%{customdata[2]}<extra></extra>"
            ),
        )
    )
    figure.add_trace(
        scatter_trace(
            x=[max(bar.start, bar.end) for bar in bars],
            y=list(range(1, last_row)),
            mode="text",
            text=[
                f"  <b>{format_change(bar.ratio)}</b>"
                + (f"  <span style='color:{roles.faint}'>{bar.detail}</span>" if bar.detail else "")
                for bar in bars
            ],
            textposition="middle right",
            textfont={"size": 11, "color": roles.text},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )
    _draw_ends(figure, (first, last), last_row, theme)
    levels = [level for bar in bars for level in (bar.start, bar.end)]
    low, high = math.log10(min(levels)), math.log10(max(levels))
    span = max(high - low, 0.02)
    figure.update_layout(
        template=template(theme),
        height=_ROW_PX * len(names) + _MARGIN_PX,
        margin={"l": 172, "r": 12, "t": 4, "b": 38},
        uirevision="waterfall",
        xaxis={
            "type": "log",
            "range": [low - 0.06 * span, high + 0.42 * span],
            "showgrid": True,
            "nticks": 6,
            "tickmode": "array",
            **_ticks(low, high),
            "title": {"text": f"{UNITS[quantity]}, logarithmic", "standoff": 4},
            "fixedrange": True,
        },
        yaxis={
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [f"<b>{n}</b>" if i in (0, last_row) else n for i, n in enumerate(names)],
            "range": [last_row + 0.6, -0.6],
            "showgrid": False,
            "fixedrange": True,
        },
        shapes=[
            {
                "type": "line",
                "x0": bar.end,
                "x1": bar.end,
                "y0": row + 1 - 0.31,
                "y1": row + 2 + 0.31,
                "line": {"width": 1, "color": roles.faint},
            }
            for row, bar in enumerate(bars)
        ],
    )
    return figure


def _draw_ends(figure: Figure, ends: tuple[float, float], last_row: int, theme: ThemeName) -> None:
    roles = ROLES[theme]
    figure.add_trace(
        scatter_trace(
            x=list(ends),
            y=[0, last_row],
            mode="markers+text",
            marker={
                "symbol": "diamond",
                "size": 9,
                "color": roles.text,
                "line": {"width": 3, "color": translucent(roles.text, 0.2)},
            },
            text=[f"   <b>{format_count(level)}</b>" for level in ends],
            textposition="middle right",
            textfont={"size": 12, "color": roles.text},
            cliponaxis=False,
            hoverinfo="skip",
        )
    )


def _ticks(low: float, high: float) -> dict[str, list[object]]:
    """Return round tick values between two powers of ten."""
    bottom, top = 10**low, 10**high
    wanted = max((top - bottom) / 4, bottom * 0.005)
    size = 10 ** math.floor(math.log10(wanted))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= wanted)
    first = math.ceil(bottom / step)
    values = [step * number for number in range(first, math.floor(top / step) + 1)]
    return {"tickvals": list(values), "ticktext": [format_count(value) for value in values]}
