"""The panels of the cluster page: what each shows, and what it depends on."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from dash import dcc, html
from dash.development.base_component import Component

from longpole.conventions import stages
from longpole_dashboards.addresses import CLUSTER_PATH, cluster_address
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.panel import fit_height, hinted
from longpole_dashboards.components.search import matches, sought_words
from longpole_dashboards.components.stat import Stat, stat
from longpole_dashboards.figures.cluster_heat import cluster_heat
from longpole_dashboards.figures.gpu_map import Cell, Scale, gpu_map
from longpole_dashboards.figures.gpus import MAX_LANES
from longpole_dashboards.formats import format_bytes, format_ratio
from longpole_dashboards.glossary import DEFINITIONS, not_reported
from longpole_dashboards.pages.cluster_reading import CONDITIONS, ClusterReading, Gpu
from longpole_dashboards.pages.cluster_storage import storage_summary, storage_table
from longpole_dashboards.pages.cluster_tables import (
    CONDITION_LABELS,
    MAX_GPU_ROWS,
    gpu_row,
    node_row,
)
from longpole_dashboards.refresh import Panel, PanelGroup
from longpole_dashboards.theme import STAGE_COLOURS

GROUP = "cluster"
HEAT_GROUP = "cluster-heat"
Row = dict[str, object]
# What the map may show: name in the address, and for people.
MAP_FIELDS = (
    ("use", "use, 1 min"),
    ("sm", "SM active"),
    ("memory", "memory"),
    ("power", "power"),
    ("heat", "temperature"),
    ("run", "run"),
)
# Of the chart over time: an empty beginning that is worth a word.
_LATE_RATIO = 0.1
_TOP_WATTS, _TOP_CELSIUS = 700.0, 95.0
_RUN_COLOURS = tuple(
    STAGE_COLOURS[stage]
    for stage in (
        stages.GEN,
        stages.UPDATE_ACTOR,
        stages.OLD_LOG_PROB,
        stages.UPDATE_WEIGHTS,
        stages.REWARD,
        stages.TESTING,
        stages.VALUES,
        stages.TRAINER_WAIT,
    )
)
_SIGNS = {"silent": "✕", "throttled": "▲", "idle": "○"}


def _stats(reading: ClusterReading) -> tuple[object, ...]:
    gpus, nodes = reading.gpus, reading.cluster.nodes
    if not nodes:
        return ([],)
    count = {name: sum(gpu.condition == name for gpu in gpus) for name in CONDITIONS}
    # What a silent one said last is no news of what it does now.
    heard = [gpu for gpu in gpus if gpu.condition != "silent"]
    held = [gpu for gpu in heard if gpu.state.now.run_id is not None]
    runs = {gpu.state.now.run_id for gpu in held}
    used = [
        gpu.state.minute.utilization_ratio
        for gpu in held
        if gpu.state.minute is not None and gpu.state.minute.utilization_ratio is not None
    ]
    power = [g.state.now.power_watts for g in heard if g.state.now.power_watts is not None]
    silent = [node.host for node in reading.silent_nodes]
    hosts = {gpu.state.now.host for gpu in gpus}
    models = sorted({gpu.state.now.model.removeprefix("NVIDIA ") for gpu in gpus})
    shown = [
        Stat("GPUs", str(len(gpus)), f"{_plural(len(hosts), 'node')}, {' / '.join(models)}"),
        Stat(
            "Held by runs",
            str(len(held)),
            f"{_plural(len(runs), 'run')}, {count['free']} free",
        ),
        Stat(
            "Used, of those held",
            format_ratio(sum(used) / len(used) if used else None),
            "mean of the last minute" if used else "not reported",
        ),
        Stat(
            "Held but idle",
            str(count["idle"]),
            _share(count["idle"], len(held), "of those held"),
            hint=DEFINITIONS["idle_held"],
            tone="warn" if count["idle"] else "",
        ),
        Stat(
            "Throttled",
            str(count["throttled"]),
            _first(gpus, "throttled") or "none in the last minute",
            hint=DEFINITIONS["throttled"],
            tone="warn" if count["throttled"] else "",
        ),
        Stat(
            "Silent nodes",
            str(len(silent)),
            ", ".join(silent[:2]) + (" …" if len(silent) > 2 else "") if silent else "all heard",
            hint=DEFINITIONS["silent"],
            tone="bad" if silent else "",
        ),
        Stat(
            "Power",
            f"{sum(power) / 1000:.1f}" if power else "–",
            _of_whom(len(power), len(gpus)) if power else "not reported",
            "kW" if power else "",
        ),
    ]
    return ([stat(each) for each in shown],)


def _of_whom(num_known: int, num_all: int) -> str:
    return "of all GPUs now" if num_known == num_all else f"of {num_known} of {num_all} GPUs"


def _plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _share(part: int, whole: int, words: str) -> str:
    return f"{format_ratio(part / whole)} {words}" if whole else ""


def _first(gpus: Sequence[Gpu], condition: str) -> str:
    names = [gpu.name for gpu in gpus if gpu.condition == condition]
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""


def _map(reading: ClusterReading) -> tuple[object, ...]:
    field = reading.view.query.choice("map", tuple(name for name, _ in MAP_FIELDS))
    runs = sorted({g.state.now.run_id for g in reading.gpus if g.state.now.run_id is not None})
    if field == "run":
        labels = [reading.names.get(run, run) for run in runs[: len(_RUN_COLOURS)]]
        scale = Scale(0, "", tuple(labels), _RUN_COLOURS[: len(labels)])
    else:
        scale = {
            "memory": Scale(100, "%"),
            "power": Scale(_TOP_WATTS, "W"),
            "heat": Scale(_TOP_CELSIUS, "°C"),
        }.get(field, Scale(100, "%"))
    cells = [
        Cell(
            gpu.state.now.host,
            gpu.state.now.gpu_index,
            _value(gpu, field, runs),
            gpu.condition,
            _describe(gpu, reading),
        )
        for gpu in reading.gpus
    ]
    figure = gpu_map(cells, scale, selected=reading.node, theme=reading.view.theme)
    return *fit_height(figure), _map_legend(reading, scale)


def _value(gpu: Gpu, field: str, runs: Sequence[str]) -> float:
    now, minute = gpu.state.now, gpu.state.minute
    if gpu.condition == "silent" and field != "run":
        return math.nan
    if field == "run":
        number = runs.index(now.run_id) if now.run_id in runs else len(_RUN_COLOURS)
        return float(number) if number < len(_RUN_COLOURS) else math.nan
    found = {
        "use": minute.utilization_ratio if minute else None,
        "sm": now.sm_active_ratio,
        "memory": now.memory_used_bytes / now.memory_total_bytes
        if now.memory_used_bytes is not None and now.memory_total_bytes
        else None,
        "power": now.power_watts,
        "heat": now.temperature_celsius,
    }[field]
    if found is None:
        return math.nan
    return found if field in ("power", "heat") else found * 100


def _describe(gpu: Gpu, reading: ClusterReading) -> str:
    now, minute = gpu.state.now, gpu.state.minute
    lines = [f"<b>{gpu.name}</b>, {CONDITION_LABELS[gpu.condition]}"]
    if now.run_id is not None:
        estimated = ", estimated" if now.how == "estimated" else ""
        lines.append(f"{reading.names.get(now.run_id, now.run_id)}, {now.role}{estimated}")
    if minute is not None:
        lines.append(f"used {format_ratio(minute.utilization_ratio)} over the last minute")
    facts = [
        f"memory {format_bytes(now.memory_used_bytes)}",
        "" if now.power_watts is None else f"{now.power_watts:.0f} W",
        "" if now.temperature_celsius is None else f"{now.temperature_celsius:.0f} °C",
    ]
    lines.append(" · ".join(fact for fact in facts if fact))
    if gpu.throttle_words:
        lines.append(f"slowed down: {gpu.throttle_words}")
    return "<br>".join(lines)


def _map_legend(reading: ClusterReading, scale: Scale) -> Component:
    entries: list[Component] = [
        html.Span(
            [html.I(style={"background": colour}), label],
            className="lp-legend-entry",
        )
        for label, colour in zip(scale.labels, scale.colours, strict=True)
    ]
    for condition, sign in _SIGNS.items():
        count = sum(gpu.condition == condition for gpu in reading.gpus)
        key = {"idle": "idle_held"}.get(condition, condition)
        entries.append(
            html.Span(
                [
                    html.B(sign, className=f"lp-sign lp-condition-{condition}"),
                    hinted(CONDITION_LABELS[condition], DEFINITIONS[key]),
                    html.Em(str(count)),
                ],
                className="lp-legend-entry",
            )
        )
    return html.Div(entries, className="lp-legend")


def _nodes(reading: ClusterReading) -> tuple[object, ...]:
    by_host: dict[str, list[Gpu]] = {}
    for gpu in reading.gpus:
        by_host.setdefault(gpu.state.now.host, []).append(gpu)
    now_ns, chosen = reading.cluster.ts_ns, reading.node
    rows = [
        node_row(node, by_host.get(node.host, ()), reading.names, now_ns, chosen)
        for node in reading.cluster.nodes
    ]
    is_any = bool(rows)
    rows = _select_sought(rows, sought_words(reading.view.query))
    rows.sort(key=lambda row: (not row["silent"], not row["trouble"], row["id"]))
    height = {"height": f"{min(12, len(rows)) * 28 + 36}px", "display": "block" if rows else "none"}
    words = "No node matches the search." if is_any else not_reported("nodes", "Nodes")
    return rows, height, None if rows else absent(words)


def _select_sought(rows: list[Row], words: Sequence[str]) -> list[Row]:
    """Return the rows that have what is searched for in their words or their runs' names."""
    return [row for row in rows if not words or _has(row, words)]


def _has(row: Row, words: Sequence[str]) -> bool:
    runs = cast("list[dict[str, object]]", row["runs"])
    texts = [value for value in row.values() if isinstance(value, str)]
    return matches(words, *texts, *(str(run["name"]) for run in runs))


def _gpus(reading: ClusterReading) -> tuple[object, ...]:
    chosen = reading.node
    gpus = [gpu for gpu in reading.gpus if chosen is None or gpu.state.now.host == chosen]
    if chosen is None:
        gpus.sort(key=lambda gpu: CONDITIONS.index(gpu.condition))
    sought = sought_words(reading.view.query)
    # Without a search those that are shown are known before there are rows.
    looked_at = gpus if sought else gpus[:MAX_GPU_ROWS]
    found = _select_sought([gpu_row(gpu, reading.names) for gpu in looked_at], sought)
    num_found, rows = len(found) if sought else len(gpus), found[:MAX_GPU_ROWS]
    height = {"height": f"{min(14, len(rows)) * 28 + 36}px", "display": "block" if rows else "none"}
    words: list[Component | str] = []
    if chosen is not None:
        words = [
            html.Span(["of ", html.B(chosen)]),
            dcc.Link("show all", href=cluster_address(), className="lp-link"),
        ]
    elif num_found > MAX_GPU_ROWS:
        words = [f"{MAX_GPU_ROWS} of {num_found}: choose a node to see its own"]
    else:
        words = ["those that want a look first"]
    if gpus and not num_found:
        kept = words if chosen is not None else []
        words = [*kept, "No GPU matches the search."]
    return rows, height, words


def _heat(reading: ClusterReading) -> tuple[object, ...]:
    heatmap = reading.heatmap
    figure = cluster_heat(
        heatmap, reading.span_ns, zone=reading.view.zone, theme=reading.view.theme
    )
    many = len(heatmap.lanes) > MAX_LANES
    words = f"{len(heatmap.lanes)} GPUs, a row is the mean of a node" if many else "a row a GPU"
    return *fit_height(figure), words + _since_when(reading)


def _since_when(reading: ClusterReading) -> str:
    """Return from when on something was measured, where that is well after the chart's start."""
    heatmap = reading.heatmap
    measured = np.flatnonzero(np.isfinite(heatmap.values).any(axis=0))
    if not measured.size or measured[0] <= heatmap.values.shape[1] * _LATE_RATIO:
        return ""
    first_ns = heatmap.start_ns + int(measured[0]) * heatmap.bin_ns
    return f"; nothing was measured before {reading.view.zone.format_moment(first_ns)}"


def _storage(reading: ClusterReading) -> tuple[object, ...]:
    report = reading.storage
    return storage_table(report, reading.view.zone), storage_summary(report)


PANELS = PanelGroup[ClusterReading](
    name=GROUP,
    path=CLUSTER_PATH,
    read=ClusterReading,
    panels=(
        Panel((("cluster-stats", "children"),), ClusterReading.key, _stats),
        Panel(
            (
                ("cluster-map", "figure"),
                ("cluster-map", "style"),
                ("cluster-map-legend", "children"),
            ),
            lambda reading: (reading.key(), reading.view.query.text("map"), reading.node),
            _map,
        ),
        Panel(
            (
                ("cluster-nodes", "rowData"),
                ("cluster-nodes-table", "style"),
                ("cluster-nodes-absent", "children"),
            ),
            lambda reading: (reading.key(), reading.node, reading.view.query.text("q")),
            _nodes,
        ),
        Panel(
            (
                ("cluster-gpus", "rowData"),
                ("cluster-gpus-table", "style"),
                ("cluster-gpus-aside", "children"),
            ),
            lambda reading: (reading.key(), reading.node, reading.view.query.text("q")),
            _gpus,
        ),
    ),
)
# Read apart: it takes longest.
HEAT_PANELS = PanelGroup[ClusterReading](
    name=HEAT_GROUP,
    path=CLUSTER_PATH,
    read=ClusterReading,
    panels=(
        Panel(
            (
                ("cluster-heat", "figure"),
                ("cluster-heat", "style"),
                ("cluster-heat-aside", "children"),
            ),
            lambda reading: (reading.span_key, reading.view.query.text("field")),
            _heat,
        ),
        Panel(
            (("cluster-storage", "children"), ("cluster-storage-aside", "children")),
            lambda reading: reading.storage,
            _storage,
        ),
    ),
)
