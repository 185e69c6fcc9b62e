"""The tables of the cluster page: nodes, and GPUs that want a look."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from typing import Any

import dash_ag_grid as dag
from dash.development.base_component import Component

from longpole_dashboards.addresses import run_address
from longpole_dashboards.formats import (
    ABSENT,
    NS_PER_MS,
    format_bytes,
    format_ratio,
)
from longpole_dashboards.pages.cluster_reading import CONDITIONS, SILENT_NS, Gpu
from longpole_server.model.cluster import NodeNow

# GPUs of the table, those that want a look first.
MAX_GPU_ROWS = 256
# From here on an agent wants a look, as the rules on clocks and spools have it.
_CLOCK_OFF_S, _SPOOL_FULL_RATIO = 5.0, 0.8
CONDITION_LABELS: Mapping[str, str] = {
    "silent": "silent",
    "throttled": "throttled",
    "idle": "idle, held",
    "working": "working",
    "free": "free",
}
JOINED_LABELS: Mapping[str, str] = {
    "gpu_ids": "its GPU ids",
    "pid": "its process",
    "pod": "its pod",
    "slurm_job": "its Slurm job",
    "ray_job": "its Ray job",
    "estimated": "estimated",
}


def nodes_grid() -> Component:
    """Return the table of nodes before its rows are there."""
    return _grid(
        "cluster-nodes",
        [
            {"field": "id", "headerName": "Node", "minWidth": 116, "flex": 1},
            {
                "field": "seen_ms",
                "headerName": "Agent heard",
                "headerTooltip": "Time since anything came from the node",
                "cellRenderer": "LongpoleSeen",
                "width": 108,
            },
            {"field": "gpus", "headerName": "GPUs", "width": 60} | _NUMBER,
            _text("used", "GPU use", 76, "Mean utilisation of its GPUs over the last minute"),
            _text("memory", "GPU mem.", 82, "Used of all its GPUs' memory"),
            _text("power", "Power", 74, "Of all its GPUs"),
            _text("hottest", "Hottest", 74, "Its hottest GPU"),
            {
                "field": "trouble",
                "headerName": "Wants a look",
                "cellRenderer": "LongpoleTrouble",
                "width": 110,
            },
            {
                "field": "runs",
                "headerName": "Held by",
                "cellRenderer": "LongpoleRuns",
                "cellDataType": False,
                "sortable": False,
                "minWidth": 140,
                "flex": 2,
            },
            _text("cpu", "CPU", 60),
            _text("host_memory", "Host mem.", 88),
            _text("network", "Network", 184, "Received and sent"),
            _text("spool", "Spool", 64, "How full its agent's spool is: what waits to be sent"),
        ],
    )


def gpus_grid() -> Component:
    """Return the table of GPUs before its rows are there."""
    return _grid(
        "cluster-gpus",
        [
            {"field": "name", "headerName": "GPU", "minWidth": 118, "flex": 1},
            {
                "field": "condition",
                "headerName": "State",
                "cellRenderer": "LongpoleCondition",
                "width": 96,
            },
            {
                "field": "runs",
                "headerName": "Run",
                "cellRenderer": "LongpoleRuns",
                "cellDataType": False,
                "sortable": False,
                "minWidth": 120,
                "flex": 1,
            },
            {"field": "role", "headerName": "Role", "width": 72},
            {
                "field": "how",
                "headerName": "Known by",
                "headerTooltip": "What joined the GPU to its run",
                "width": 92,
            },
            _text("used", "Use, 1 min", 86, "Mean utilisation over the last minute"),
            _text("sm", "SM active", 84, "In its newest sample"),
            _text("tensor", "Tensor", 70, "Tensor cores active in its newest sample"),
            _text("memory", "Memory", 106),
            _text("power", "Power", 70),
            _text("heat", "Temp.", 68),
            {
                "field": "throttled",
                "headerName": "Slowed down by",
                "headerTooltip": "What the driver named in the last minute",
                "tooltipField": "throttled",
                "minWidth": 134,
                "flex": 1,
            },
            {
                "field": "faults",
                "headerName": "Errors",
                "headerTooltip": "XID errors of the last minute, and memory errors since boot that "
                "could not be corrected",
                "width": 80,
            },
        ],
    )


_NUMBER: dict[str, Any] = {"type": "rightAligned"}


def _text(field: str, name: str, width: int, tooltip: str = "") -> dict[str, Any]:
    column: dict[str, Any] = {
        "field": field,
        "headerName": name,
        "cellRenderer": "LongpoleText",
        "width": width,
    }
    return column | _NUMBER | ({"headerTooltip": tooltip} if tooltip else {})


def _grid(grid_id: str, columns: list[dict[str, Any]]) -> Component:
    return dag.AgGrid(
        id=grid_id,
        columnDefs=columns,
        rowData=None,
        getRowId="params.data.id",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "theme": {"function": "longpoleGridTheme(agGrid)"},
            "rowHeight": 28,
            "headerHeight": 28,
            "tooltipShowDelay": 200,
            "animateRows": False,
            "suppressNoRowsOverlay": True,
            "rowClassRules": {
                "lp-row-selected": "params.data.selected",
                "lp-row-stale": "params.data.silent",
            },
        },
        className="lp-grid",
        style={"height": "100%"},
    )


def node_row(
    node: NodeNow, gpus: Sequence[Gpu], names: Mapping[str, str], now_ns: int, selected: str | None
) -> dict[str, object]:
    """Return a node as a row: values to sort by, and the words that stand for them."""
    states = [gpu.state for gpu in gpus]
    used = _mean([s.minute.utilization_ratio if s.minute else None for s in states])
    memory = _sum([state.now.memory_used_bytes for state in states])
    memory_total = _sum([state.now.memory_total_bytes for state in states])
    power = _sum([state.now.power_watts for state in states])
    hottest = max(
        (s.now.temperature_celsius for s in states if s.now.temperature_celsius is not None),
        default=None,
    )
    is_silent = now_ns - node.seen_ns > SILENT_NS
    troubles = [gpu.condition for gpu in gpus if gpu.condition in CONDITIONS[1:3]]
    trouble = ["silent"] if is_silent else []
    trouble += [
        f"{troubles.count(name)} {CONDITION_LABELS[name]}"
        for name in CONDITIONS[1:3]
        if name in troubles
    ]
    trouble += _agent_troubles(node)
    received, sent = node.network_receive_bytes_per_s, node.network_transmit_bytes_per_s
    return {
        "id": node.host,
        "selected": node.host == selected,
        "seen_ms": node.seen_ns // NS_PER_MS,
        "silent": is_silent,
        "gpus": len(gpus),
        "used": used,
        "used_text": format_ratio(used),
        "memory": memory,
        "memory_text": format_ratio(memory / memory_total if memory and memory_total else None),
        "power": power,
        "power_text": ABSENT if power is None else f"{power / 1000:.1f} kW",
        "hottest": hottest,
        "hottest_text": ABSENT if hottest is None else f"{hottest:.0f} °C",
        "trouble": ", ".join(trouble),
        "runs": _runs(gpus, names),
        "cpu": node.cpu_utilization_ratio,
        "cpu_text": format_ratio(node.cpu_utilization_ratio),
        "host_memory": node.memory_used_bytes,
        "host_memory_text": format_ratio(
            node.memory_used_bytes / node.memory_total_bytes
            if node.memory_used_bytes is not None and node.memory_total_bytes
            else None
        ),
        "spool": node.spool_used_ratio,
        "spool_text": format_ratio(node.spool_used_ratio),
        "network": received,
        "network_text": ABSENT
        if received is None and sent is None
        else f"↓ {_rate(received)}  ↑ {_rate(sent)}",
    }


def gpu_row(gpu: Gpu, names: Mapping[str, str]) -> dict[str, object]:
    """Return a GPU as a row."""
    now, minute = gpu.state.now, gpu.state.minute
    used = minute.utilization_ratio if minute else None
    return {
        "id": f"{now.host}/{now.gpu_uuid}",
        "host": now.host,
        "silent": gpu.condition == "silent",
        "name": gpu.name,
        "condition": gpu.condition,
        "condition_text": CONDITION_LABELS[gpu.condition],
        "runs": _runs([gpu], names),
        "role": now.role or ABSENT,
        "how": JOINED_LABELS[now.how] if now.how else ABSENT,
        "used": used,
        "used_text": format_ratio(used),
        "sm": now.sm_active_ratio,
        "sm_text": format_ratio(now.sm_active_ratio),
        "tensor": now.tensor_active_ratio,
        "tensor_text": format_ratio(now.tensor_active_ratio),
        "memory": now.memory_used_bytes,
        "memory_text": _of(now.memory_used_bytes, now.memory_total_bytes),
        "power": now.power_watts,
        "power_text": ABSENT if now.power_watts is None else f"{now.power_watts:.0f} W",
        "heat": now.temperature_celsius,
        "heat_text": ABSENT
        if now.temperature_celsius is None
        else f"{now.temperature_celsius:.0f} °C",
        "throttled": _throttle_words(gpu),
        "faults": _fault_words(gpu),
    }


def _agent_troubles(node: NodeNow) -> list[str]:
    """Return what is wrong with a node's agent or its clock, in words."""
    found = list[str]()
    if node.clock_offset_s is not None and abs(node.clock_offset_s) > _CLOCK_OFF_S:
        found.append(f"clock {node.clock_offset_s:+.0f} s")
    if node.spool_used_ratio is not None and node.spool_used_ratio > _SPOOL_FULL_RATIO:
        found.append("spool fills")
    if node.agent_dropped_total:
        found.append(f"{node.agent_dropped_total:,} dropped")
    return found


def _throttle_words(gpu: Gpu) -> str:
    """Return why a GPU was slowed down; of one whose driver names no reasons that is not known."""
    minute = gpu.state.minute
    if minute is None or minute.throttled_ratio is None:
        return ABSENT
    return gpu.throttle_words or "nothing"


def _fault_words(gpu: Gpu) -> str:
    """Return the errors a GPU reported; those nobody would tell of are absent, not none."""
    minute = gpu.state.minute
    if minute is None or (minute.xid is None and minute.ecc_uncorrected_errors is None):
        return ABSENT
    words = [f"XID {minute.xid}"] if minute.xid is not None else []
    if minute.ecc_uncorrected_errors:
        words.append(f"{minute.ecc_uncorrected_errors:,} ECC")
    return ", ".join(words) or "none"


def _of(used: int | None, total: int | None) -> str:
    if used is None:
        return ABSENT
    if total is None:
        return format_bytes(used)
    return f"{used / 2**30:.1f} of {total / 2**30:.0f} GiB"


def _rate(bytes_per_s: float | None) -> str:
    return ABSENT if bytes_per_s is None else f"{format_bytes(bytes_per_s)}/s"


def _runs(gpus: Sequence[Gpu], names: Mapping[str, str]) -> list[dict[str, object]]:
    held: dict[str, bool] = {}
    for gpu in gpus:
        run_id = gpu.state.now.run_id
        if run_id is not None:
            held[run_id] = held.get(run_id, True) and gpu.state.now.how == "estimated"
    return [
        {"href": run_address(run_id), "name": names.get(run_id, run_id), "estimated": estimated}
        for run_id, estimated in held.items()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
