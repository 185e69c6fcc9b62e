"""What processes hold of host memory, and which of them grow, on the cluster page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.sparkline import sparkline
from longpole_dashboards.components.table import Cell, Column, Row, table
from longpole_dashboards.formats import ABSENT, format_bytes, format_ratio
from longpole_dashboards.glossary import not_reported
from longpole_dashboards.theme import DEFAULT_THEME, ROLES
from longpole_server.model.cluster import NodeNow, ProcessMemory

_COLUMNS = (
    Column("Process"),
    Column("Node"),
    Column("Pid", is_figure=True),
    Column("Now", is_figure=True),
    Column("Grown", is_figure=True, hint="Since its first sample of the time that is shown."),
    Column("An hour", is_figure=True, hint="The same, as a rate."),
    Column("Over the time shown"),
)
_HOUR_NS = 3_600 * 10**9
# A rate of a shorter time says more about noise than about a leak.
_LEAST_NS = 120 * 10**9
# Growth that is worth a look: of what the process held, and at least so much.
_GROWN_RATIO, _GROWN_BYTES = 0.05, 512 << 20
# One colour that is read on both themes: images do not change with them.
_LINE_COLOUR = ROLES[DEFAULT_THEME].accent


def process_table(processes: Sequence[ProcessMemory]) -> Component:
    """Return processes, those that grew most first."""
    if not processes:
        return absent(not_reported("host_processes", "Memory of processes"))
    return table(_COLUMNS, [_row(process) for process in processes])


def process_summary(
    processes: Sequence[ProcessMemory], node: NodeNow | None
) -> Sequence[Component]:
    """Return what is to be known around the table: of one node its memory and object store."""
    if node is None:
        return [html.Span("those that grew most, over the time chosen above")] if processes else []
    words = list[str]()
    used, total = node.memory_used_bytes, node.memory_total_bytes
    if used is not None:
        share = f" ({format_ratio(used / total)})" if total else ""
        words.append(f"{format_bytes(used)} of host memory in use{share}")
    if processes:
        held = sum(process.last_bytes for process in processes)
        words.append(f"{format_bytes(held)} by these processes")
    stored = node.object_store_used_bytes
    if stored is not None:
        limit = node.object_store_total_bytes
        words.append(
            f"Ray's object store {format_bytes(stored)}"
            + (f" of {format_bytes(limit)}" if limit else "")
        )
    if node.object_store_spilled_bytes:
        words.append(f"{format_bytes(node.object_store_spilled_bytes)} of it on disk")
    return [html.B(node.host), *(html.Span(word) for word in words)]


def _row(process: ProcessMemory) -> Row:
    name = process.title or "not told"
    spark = sparkline([float(size) for _, size in process.points], _LINE_COLOUR)
    is_growing = _is_growing(process)
    sign = html.I("▲", title="grows", className="lp-slow-sign") if is_growing else None
    cells: Sequence[Cell] = (
        html.Div(name.removeprefix("ray::"), title=name, className="lp-title-cell"),
        process.host,
        str(process.pid),
        format_bytes(process.last_bytes),
        html.Span([sign, _signed(process.grown_bytes)], className="lp-grown"),
        _rate(process),
        html.Img(src=spark, alt="", className="lp-spark") if spark else ABSENT,
    )
    return Row(cells, "lp-slow" if is_growing else "")


def _is_growing(process: ProcessMemory) -> bool:
    grown = process.grown_bytes
    return grown >= _GROWN_BYTES and grown >= _GROWN_RATIO * process.first_bytes


def _rate(process: ProcessMemory) -> str:
    length_ns = process.last_ns - process.first_ns
    if length_ns < _LEAST_NS:
        return ABSENT
    return _signed(process.grown_bytes * _HOUR_NS / length_ns)


def _signed(size: float) -> str:
    if abs(size) < 1:
        return "±0 B"
    return f"{'+' if size > 0 else '−'}{format_bytes(abs(size))}"
