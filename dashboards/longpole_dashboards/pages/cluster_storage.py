"""What the store holds, table by table, on the cluster page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from dash import html
from dash.development.base_component import Component

from longpole_dashboards.components.notice import empty_state
from longpole_dashboards.formats import ABSENT, Zone, format_bytes, format_whole
from longpole_server.model.storage import StorageReport, TableSize

_HEAD = ("Table", "On disk", "Rows", "Bytes a row", "From", "To", "Kept")
_DAY_S = 86_400


def storage_table(report: StorageReport, zone: Zone) -> Component:
    """Return the tables that hold rows, the largest first; times in the viewer's zone."""
    rows = [_row(table, zone) for table in report.tables if table.rows]
    if not rows:
        return empty_state("The store is empty", "Its tables appear with the first run.")
    head = html.Thead(html.Tr([html.Th(word) for word in _HEAD]))
    return html.Table([head, html.Tbody(rows)], className="lp-table lp-rows")


def storage_summary(report: StorageReport) -> str:
    """Return the size of everything, where it is, and what is free there."""
    held = format_bytes(sum(table.bytes_on_disk for table in report.tables))
    free = "" if report.free_bytes is None else f", {format_bytes(report.free_bytes)} free"
    return f"{held} in {report.place}{free}"


def _row(table: TableSize, zone: Zone) -> Component:
    per_row = table.bytes_per_row
    cells = (
        table.name,
        format_bytes(table.bytes_on_disk),
        format_whole(table.rows),
        ABSENT if per_row is None else f"{per_row:.1f}",
        _moment(table.oldest_ns, zone),
        _moment(table.newest_ns, zone),
        _keep(table.keep_s),
    )
    return html.Tr([html.Td(cell) for cell in cells])


def _moment(ts_ns: int | None, zone: Zone) -> str:
    return ABSENT if ts_ns is None else zone.local(ts_ns).strftime("%Y-%m-%d %H:%M")


def _keep(seconds: int | None) -> str:
    if seconds is None:
        return "for ever"
    if seconds < _DAY_S:
        return f"{seconds // 3600} h"
    return f"{seconds // _DAY_S} days"
