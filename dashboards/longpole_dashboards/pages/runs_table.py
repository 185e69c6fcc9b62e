"""The table of runs: its columns, and a run as a row."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import dash_ag_grid as dag
from dash.development.base_component import Component

from longpole_dashboards.addresses import alerts_address, run_address
from longpole_dashboards.components.now import LATE_GRACE_S
from longpole_dashboards.components.sparkline import sparkline
from longpole_dashboards.formats import (
    ABSENT,
    NS_PER_MS,
    format_count,
    format_duration,
    format_ratio,
)
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.theme import stage_label, verdict_colour
from longpole_dashboards.verdicts import verdict_badge, verdict_title
from longpole_server.model.run import Pace, RunSummary


def runs_grid() -> Component:
    """Return the table before its rows are there."""
    number = {"type": "rightAligned", "filter": False}
    return dag.AgGrid(
        id="runs-grid",
        columnDefs=[
            {
                "field": "name",
                "headerName": "Run",
                "cellRenderer": "LongpoleRun",
                "flex": 2,
                "minWidth": 190,
            },
            {"field": "state", "cellRenderer": "LongpoleState", "width": 88},
            {"field": "step", "cellRenderer": "LongpoleOpenStep", "width": 136},
            {
                "field": "ended_ms",
                "headerName": "Last step",
                "headerTooltip": "Time since the newest step ended",
                "cellRenderer": "LongpoleAge",
                "width": 88,
            }
            | number,
            {
                "field": "step_s",
                "headerName": "Step time",
                "headerTooltip": DEFINITIONS["step_time"],
                "cellRenderer": "LongpoleText",
                "width": 88,
            }
            | number,
            {
                "field": "throughput",
                "headerName": "Tokens/s/GPU",
                "headerTooltip": DEFINITIONS["throughput"],
                "cellRenderer": "LongpoleSpark",
                "width": 128,
            }
            | number,
            {
                "field": "mfu",
                "headerName": "MFU",
                "headerTooltip": DEFINITIONS["mfu_step"],
                "cellRenderer": "LongpoleText",
                "width": 58,
            }
            | number,
            {
                "field": "verdict",
                "headerName": "Waits for",
                "cellRenderer": "LongpoleVerdict",
                "flex": 1,
                "minWidth": 132,
            },
            {
                "field": "alerts",
                "headerTooltip": "Alerts of this run that fire",
                "cellRenderer": "LongpoleAlerts",
                "width": 62,
            }
            | number,
            {
                "field": "staleness",
                "headerTooltip": DEFINITIONS["staleness"],
                "cellRenderer": "LongpoleText",
                "width": 78,
            }
            | number,
            {"field": "gpus", "headerName": "GPUs", "cellRenderer": "LongpoleText", "width": 60}
            | number,
            {
                "field": "started_ms",
                "headerName": "Started",
                "cellRenderer": "LongpoleMoment",
                "width": 102,
            }
            | number,
        ],
        rowData=None,
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "theme": {"function": "longpoleGridTheme(agGrid)"},
            "rowHeight": 46,
            "headerHeight": 32,
            "tooltipShowDelay": 200,
            "animateRows": False,
            "suppressCellFocus": False,
            "suppressNoRowsOverlay": True,
            # A phone has no column for the state.
            "includeHiddenColumnsInQuickFilter": True,
            "rowSelection": {
                "mode": "multiRow",
                "headerCheckbox": False,
                "enableClickSelection": False,
            },
            "selectionColumnDef": {"width": 38, "headerTooltip": "Choose two to compare"},
        },
        className="lp-grid",
        style={"height": "100%"},
    )


def run_row(run: RunSummary, paces: Sequence[Pace], colour: str) -> dict[str, object]:
    """Return a row: values to sort by, and the words that stand for them.

    Args:
        run: The run.
        paces: Of its last steps, which are drawn.
        colour: Of the line.
    """
    about = [run.project, run.algorithm, run.mode, run.system]
    if run.mode_source == "inferred" and run.mode is not None:
        about[2] = f"{run.mode} (inferred)"
    stage = run.open_stage
    ended_ns = paces[-1].end_ns if paces else None
    return {
        "id": run.run_id,
        "href": run_address(run.run_id),
        "name": run.name,
        "about": " · ".join(word.replace("_", " ") for word in about if word),
        "state": run.state,
        "step": run.last_step,
        "open": _open_words(run),
        "open_since_ms": None if stage is None else stage.since_ns // NS_PER_MS,
        "open_grace_s": LATE_GRACE_S,
        "open_longest_s": None if stage is None else stage.usual_max_s,
        "ended_ms": None if ended_ns is None else ended_ns // NS_PER_MS,
        "step_s": run.step_duration_s,
        "step_s_text": format_duration(run.step_duration_s),
        "throughput": run.throughput_tokens_per_s_per_gpu,
        "throughput_text": format_count(run.throughput_tokens_per_s_per_gpu),
        "spark": sparkline([pace.throughput_tokens_per_s_per_gpu for pace in paces], colour),
        "mfu": run.mfu_step,
        "mfu_text": format_ratio(run.mfu_step),
        "verdict": run.verdict,
        "verdict_text": verdict_badge(run.verdict),
        "verdict_title": verdict_title(run.verdict),
        "verdict_colour": verdict_colour(run.verdict),
        "waits": _waits(run),
        "confidence": run.confidence,
        "staleness": run.staleness_max,
        "staleness_text": format_count(run.staleness_max),
        "alerts": run.open_alerts,
        "alerts_href": alerts_address(run.run_id),
        "gpus": run.gpu_count,
        "gpus_text": ABSENT if run.gpu_count is None else str(run.gpu_count),
        "started_ms": run.started_ns // NS_PER_MS,
    }


def _open_words(run: RunSummary) -> str:
    stage = run.open_stage
    if stage is None:
        return ""
    words = "between stages" if stage.stage == "step" else stage_label(stage.stage)
    return words if stage.step is None else f"{stage.step}: {words}"


def _waits(run: RunSummary) -> str:
    """Return in one line what a run waits for and how much fires of it."""
    words = [verdict_badge(run.verdict)]
    if run.open_alerts:
        words.append("1 alert" if run.open_alerts == 1 else f"{run.open_alerts} alerts")
    return ", ".join(word for word in words if word)
