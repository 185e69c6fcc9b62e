"""The verdict of the run page, its tiles, and the run's numbers per step."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import RUN_PATH
from longpole_dashboards.components.panel import legend
from longpole_dashboards.components.verdict import (
    evidence_table,
    findings_list,
    next_looks,
    verdict_card,
)
from longpole_dashboards.figures.moments import mark_moments, mark_time_axis
from longpole_dashboards.figures.series import (
    MFU_SERIES,
    mfu,
    mfu_colours,
    throughput,
)
from longpole_dashboards.formats import (
    format_ratio,
)
from longpole_dashboards.pages.run_moments import list_moments, list_syncs
from longpole_dashboards.pages.run_reading import RunReading
from longpole_dashboards.pages.run_tiles import render_tiles
from longpole_dashboards.refresh import Panel, PanelGroup


def _verdict(reading: RunReading) -> tuple[object, ...]:
    diagnosis = reading.diagnosis
    why: list[Component] = [evidence_table(diagnosis.evidence)]
    if diagnosis.next:
        why += [html.H3("Look at next"), next_looks(diagnosis.next)]
    if diagnosis.findings or diagnosis.data_quality:
        why += [
            html.H3("Also seen"),
            findings_list(diagnosis.findings, diagnosis.data_quality),
        ]
    code = dcc.Store(id="run-verdict-code", data=diagnosis.verdict)
    return [verdict_card(diagnosis), code], why


def _throughput(reading: RunReading) -> tuple[object, ...]:
    axis, zone, theme = reading.axis, reading.view.zone, reading.view.theme
    figures = [draw(reading.drawn, axis=axis, zone=zone, theme=theme) for draw in (throughput, mfu)]
    for figure in figures:
        if figure.data:
            mark_moments(figure, list_moments(reading, axis))
            if axis == "time":
                mark_time_axis(figure, list_syncs(reading, reading.drawn))
    return (*(reading.revise(figure) for figure in figures), _mfu_legend(reading))


def _mfu_legend(reading: RunReading) -> Component:
    colours = mfu_colours(reading.view.theme)
    entries: list[tuple[str, str, str]] = []
    for name, label in MFU_SERIES:
        known = [getattr(step, name) for step in reading.closed]
        newest = next((value for value in reversed(known) if value is not None), None)
        if newest is not None:
            entries.append((label, colours[name], format_ratio(newest, 1)))
    return legend(entries)


PANELS = PanelGroup[RunReading](
    name="run-summary",
    path=RUN_PATH,
    read=RunReading,
    panels=(
        Panel(
            (("run-verdict", "children"), ("run-evidence", "children")),
            RunReading.closed_key,
            _verdict,
        ),
        Panel((("run-tiles", "children"),), RunReading.closed_key, render_tiles),
        Panel(
            (
                ("run-throughput", "figure"),
                ("run-mfu", "figure"),
                ("run-mfu-legend", "children"),
            ),
            lambda reading: (reading.closed_key(), reading.alerts_key()),
            _throughput,
        ),
    ),
)
