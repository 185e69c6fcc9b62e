"""The panels of the compare page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Sequence

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import (
    COMPARE_PATH,
    LAST_WINDOW,
    compare_address,
    run_address,
)
from longpole_dashboards.components.notice import absent, empty_state
from longpole_dashboards.components.panel import fit_height, hinted
from longpole_dashboards.figures.quantiles import quantiles
from longpole_dashboards.figures.waterfall import (
    UNITS,
    part_label,
    rank_parts,
    waterfall,
)
from longpole_dashboards.formats import (
    ABSENT,
    format_change,
    format_count,
    format_duration,
    format_value,
)
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.pages.compare_reading import CompareReading
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import FAMILY_COLOURS, ROLES, stage_colour, verdict_colour
from longpole_dashboards.verdicts import verdict_title
from longpole_server.model.comparison import ComparedWindow, Comparison, ConfigDifference
from longpole_server.model.decomposition import Decomposition, Part, WindowMeans

GROUP = "compare"
# Below this a change is how windows differ anyway.
_QUIET_LOG = 0.02


def _choices(reading: CompareReading) -> tuple[object, ...]:
    data = [{"value": run.run_id, "label": run.name} for run in reading.runs]
    return data, data


def _presets(reading: CompareReading) -> tuple[object, ...]:
    asked = reading.asked
    if asked is None:
        return (None,)
    links = [
        (
            "swap",
            compare_address(asked.other_id, asked.run_id, asked.other_steps, asked.steps),
        )
    ]
    newest, first = reading.first_and_last(asked.run_id)
    if newest != LAST_WINDOW:
        address = compare_address(asked.run_id, asked.run_id, newest, first)
        links.append((f"first against last steps of {_name(reading, asked.run_id)}", address))
    if asked.other_id != asked.run_id:
        links.append(("last 20 of each", compare_address(asked.run_id, asked.other_id)))
    return ([dcc.Link(text, href=href, className="lp-link lp-preset") for text, href in links],)


def _name(reading: CompareReading, run_id: str) -> str:
    return next((run.name for run in reading.runs if run.run_id == run_id), run_id)


def _sides(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return None, None
    means = found.decomposition
    return (
        _side(found.before, means.before, means),
        _side(found.after, means.after, means),
    )


def _side(window: ComparedWindow, means: WindowMeans, change: Decomposition) -> Component:
    unit = UNITS.get(change.quantity or "", "")
    return html.Div(
        [
            html.Div(
                [
                    dcc.Link(
                        window.run_name, href=run_address(window.run_id), className="lp-side-name"
                    ),
                    html.Span(
                        [
                            html.B(format_count(means.loop_throughput)),
                            html.Small(unit if means.loop_throughput is not None else ""),
                        ],
                        className="lp-side-rate",
                    ),
                ],
                className="lp-side-line",
            ),
            html.Div(
                [
                    html.Span(_window_words(window), className="lp-dim"),
                    *_excluded(window),
                    html.Span(_length_words(means), className="lp-dim lp-side-end"),
                ],
                className="lp-side-line",
            ),
            _verdict(window),
        ],
        className="lp-side",
    )


def _verdict(window: ComparedWindow) -> Component | None:
    if window.verdict is None:
        return None
    return html.Div(
        [
            html.Span(
                verdict_title(window.verdict),
                className="lp-verdict-badge",
                style={"--family": verdict_colour(window.verdict)},
            ),
            html.Span(
                f"in {window.num_verdict:,} of {window.num_judged:,} steps", className="lp-dim"
            ),
        ],
        className="lp-side-line",
    )


def _window_words(window: ComparedWindow) -> str:
    if not window.num_judged:
        return "no judged steps"
    words = f"steps {window.first_step}–{window.last_step}, {window.num_judged} judged"
    if window.attempts in ((), (1,)):
        return words
    word = "attempts" if len(window.attempts) > 1 else "attempt"
    return f"{words}, {word} {', '.join(map(str, window.attempts))}"


def _length_words(means: WindowMeans) -> str:
    if means.step_s is None:
        return ""
    between = f", {format_duration(means.outside_s)} between" if means.outside_s else ""
    return f"{format_duration(means.step_s)} a step{between}"


def _excluded(window: ComparedWindow) -> list[Component]:
    if not window.excluded:
        return []
    reasons = sorted({excluded.reason.replace("_", " ") for excluded in window.excluded})
    return [hinted(f"{len(window.excluded)} left out", "; ".join(reasons), "lp-dim")]


def _headline(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return (
            empty_state(
                "Choose what to compare",
                html.P(
                    "Two runs, or two windows of one run: choose above, or in the list of runs."
                ),
            ),
            {"display": "none"},
        )
    change = found.decomposition
    body = html.Section(
        [
            html.Div("what changed", className="lp-overline"),
            html.H2(_change_words(change), className="lp-verdict-title"),
            html.P(_parts_words(change), className="lp-verdict-summary"),
            *[html.P(words, className="lp-dim") for words in _same_run_words(found)],
            *[html.P(remark, className="lp-absent") for remark in change.remarks],
        ],
        className="lp-panel lp-verdict",
        style={"--family": _change_colour(reading, change)},
    )
    return body, {}


def _same_run_words(found: Comparison) -> list[str]:
    """Say so where both sides are of one run, and which steps are in both."""
    before, after = found.before, found.after
    if before.run_id != after.run_id:
        return []
    bounds = (before.first_step, before.last_step, after.first_step, after.last_step)
    if None in bounds:
        return [f"Both sides are of the same run, {after.run_name}."]
    first = max(before.first_step or 0, after.first_step or 0)
    last = min(before.last_step or 0, after.last_step or 0)
    if bounds[:2] == bounds[2:]:
        words = "Both sides are the same steps of the same run: nothing can differ."
        return [f"{words} Choose another run, or other steps of this one."]
    words = f"Both sides are of the same run, {after.run_name}"
    return [f"{words}; steps {first}–{last} are in both." if first <= last else f"{words}."]


def _change_words(change: Decomposition) -> str:
    if change.total is None:
        return "The change is not known"
    if abs(change.total) < _QUIET_LOG:
        return f"As fast as before ({format_change(math.expm1(change.total))})"
    ratio = math.expm1(change.total)
    word = "faster" if ratio > 0 else "slower"
    return f"{format_change(abs(ratio)).lstrip('+')} {word} than before"


def _change_colour(reading: CompareReading, change: Decomposition) -> str:
    roles = ROLES[reading.view.theme]
    if change.total is None or abs(change.total) < _QUIET_LOG:
        return FAMILY_COLOURS["overhead"]
    return roles.good if change.total > 0 else roles.bad


def _parts_words(change: Decomposition) -> str:
    if change.total is None:
        return change.reason or "One of the sides does not report enough."
    ranked = [part for part in rank_parts(change.parts) if abs(part.log_change or 0.0) > 0.005][:3]
    if not ranked:
        return "No part changed by more than half a percent."
    words = [
        f"{part_label(part)} {format_change(math.expm1(part.log_change or 0.0))}" for part in ranked
    ]
    levels = (change.before.loop_throughput, change.after.loop_throughput)
    unit = UNITS.get(change.quantity or "", "")
    moved = f"{format_count(levels[0])} → {format_count(levels[1])} {unit}. "
    return f"{moved}Most of it: {', '.join(words)}."


def _waterfall(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return {}, {"display": "none"}
    return fit_height(waterfall(found.decomposition, theme=reading.view.theme))


def _table(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return (None,)
    change = found.decomposition
    head = ("part", "before", "after", "difference", "", "throughput ×")
    rows = [_part_row(part) for part in _order(change.parts)]
    foot = html.Tr(
        [
            html.Td("all parts, multiplied"),
            _cell(format_count(change.before.loop_throughput)),
            _cell(format_count(change.after.loop_throughput)),
            _cell(""),
            _cell(format_change(math.expm1(change.total)) if change.total is not None else ABSENT),
            _cell(f"{math.exp(change.total):.4f}" if change.total is not None else ABSENT),
        ],
        className="lp-total",
    )
    return (
        html.Table(
            [
                html.Thead(
                    html.Tr(
                        [
                            html.Th(name, className="lp-number" if index else "")
                            for index, name in enumerate(head)
                        ]
                    )
                ),
                html.Tbody([*rows, foot]),
            ],
            className="lp-table lp-rows",
        ),
    )


def _order(parts: Sequence[Part]) -> list[Part]:
    kinds = ("tokens", "gpus", "stage", "unattributed", "outside")
    return sorted(parts, key=lambda part: kinds.index(part.kind))


def _part_row(part: Part) -> Component:
    both = part.before is not None and part.after is not None
    difference = (part.after or 0.0) - (part.before or 0.0) if both else None
    colour = stage_colour(part.name) if part.kind in ("stage", "outside", "unattributed") else ""
    dot = html.I(className="lp-stage-dot", style={"background": colour}) if colour else None
    relative = (
        format_change(part.after / part.before - 1)
        if both and part.before and (part.after is not None)
        else ""
    )
    factor = (
        f"{math.exp(part.log_change):.4f}"
        if part.log_change is not None
        else f"not known: {part.reason}"
    )
    return html.Tr(
        [
            html.Td([dot, part_label(part)]),
            _cell(_show(part.before, part.unit)),
            _cell(_show(part.after, part.unit)),
            _cell(_signed(difference, part.unit)),
            _cell(relative, "lp-dim"),
            _cell(factor, _tone(part.log_change)),
        ]
    )


def _show(value: float | None, unit: str) -> str:
    return ABSENT if value is None else format_value(value, unit)


def _signed(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    shown = _show(abs(value), unit)
    return shown if not value else f"{'+' if value > 0 else '−'}{shown}"


def _tone(log_change: float | None) -> str:
    if log_change is None or abs(log_change) < 0.005:
        return ""
    return "lp-better" if log_change > 0 else "lp-worse"


def _cell(text: str, class_name: str = "") -> Component:
    return html.Td(text, className=f"lp-figure {class_name}")


def _distributions(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return {}, {"display": "none"}
    return fit_height(quantiles(found.distributions, theme=reading.view.theme))


def _config(reading: CompareReading) -> tuple[object, ...]:
    found = reading.comparison
    if found is None:
        return None, ""
    if not found.config:
        return absent(_same_config(found)), ""
    table = html.Table(
        [
            html.Thead(html.Tr([html.Th(name) for name in ("setting", "before", "after")])),
            html.Tbody([_config_row(difference) for difference in found.config]),
        ],
        className="lp-table lp-rows lp-config",
    )
    count = len(found.config)
    return table, f"{count} setting{'s' if count > 1 else ''} differ{'' if count > 1 else 's'}"


def _same_config(found: Comparison) -> str:
    if found.before.run_id == found.after.run_id and found.before.attempts == found.after.attempts:
        return "Both windows are of the same attempt: one configuration."
    return f"No setting differs. Settings come from {not_reported('config').split('from ')[-1]}"


def _config_row(difference: ConfigDifference) -> Component:
    return html.Tr(
        [
            html.Td(html.Code(difference.key)),
            html.Td(_setting(difference.before, "not set")),
            html.Td(_setting(difference.after, "not set"), className="lp-strong"),
        ],
        className=f"lp-config-{difference.change}",
    )


def _setting(value: str | None, missing: str) -> Component:
    if value is None:
        return html.Span(missing, className="lp-dim")
    return html.Code(value)


PANELS = PanelGroup[CompareReading](
    name=GROUP,
    path=COMPARE_PATH,
    read=CompareReading,
    panels=(
        Panel(
            (("compare-run", "data"), ("compare-with", "data")),
            lambda reading: [(run.run_id, run.name) for run in reading.runs],
            _choices,
        ),
        Panel((("compare-presets", "children"),), CompareReading.key, _presets),
        Panel(
            (("compare-before", "children"), ("compare-after", "children")),
            CompareReading.key,
            _sides,
        ),
        Panel(
            (("compare-headline", "children"), ("compare-body", "style")),
            CompareReading.key,
            _headline,
        ),
        Panel(
            (("compare-waterfall", "figure"), ("compare-waterfall", "style")),
            CompareReading.key,
            _waterfall,
        ),
        Panel((("compare-table", "children"),), CompareReading.key, _table),
        Panel(
            (("compare-spread", "figure"), ("compare-spread", "style")),
            CompareReading.key,
            _distributions,
        ),
        Panel(
            (("compare-config", "children"), ("compare-config-aside", "children")),
            CompareReading.key,
            _config,
        ),
    ),
)
