"""The cluster's stragglers, one GPU over time, and what processes hold of host memory."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from functools import cached_property

from dash import dcc, html
from dash.development.base_component import Component

from longpole_dashboards.addresses import CLUSTER_PATH, cluster_address, run_address
from longpole_dashboards.components.export import csv_button
from longpole_dashboards.components.notice import absent
from longpole_dashboards.components.paces import gpu_paces, replica_paces, titled_table
from longpole_dashboards.components.panel import fit_height, graph, panel
from longpole_dashboards.figures.gpu_series import gpu_series
from longpole_dashboards.figures.template import message_figure
from longpole_dashboards.glossary import DEFINITIONS
from longpole_dashboards.pages.cluster_processes import process_summary, process_table
from longpole_dashboards.pages.cluster_reading import ClusterReading
from longpole_dashboards.reading import Reader
from longpole_dashboards.refresh import Panel, PanelGroup, View
from longpole_server.errors import NotFoundError
from longpole_server.model.cluster import GpuState, ProcessMemory
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.run import RunSummary
from longpole_server.model.stragglers import RunStragglers

GROUP = "cluster-hardware"
# Runs whose paces are shown, those that were heard of last first.
_MAX_RUNS = 6
_SHOWN_GPUS, _SHOWN_REPLICAS = 8, 6
_SERIES_BINS = 600
_PROCESS_BINS, _MAX_PROCESSES = 48, 24


class HardwareReading(ClusterReading):
    """The cluster with the paces of its runs, one GPU, and processes."""

    def __init__(self, reader: Reader, view: View) -> None:
        super().__init__(reader, view)
        self._version = reader.service.changes.current.version

    @cached_property
    def runs(self) -> Sequence[RunSummary]:
        """Runs that go on."""
        found = self._memory.ask("runs", self._version, self._service.list_runs)
        return [run for run in found if run.state in ("live", "stalled")][:_MAX_RUNS]

    @cached_property
    def paces(self) -> Mapping[str, RunStragglers]:
        """Run id -> paces over its last steps."""
        return {run.run_id: self._ask_paces(run) for run in self.runs}

    def _ask_paces(self, run: RunSummary) -> RunStragglers:
        try:
            return self._memory.ask(
                ("paces", run.run_id),
                (run.num_steps, run.last_step),
                lambda: self._service.get_stragglers(run.run_id),
            )
        except NotFoundError:
            # It was deleted meanwhile.
            return RunStragglers()

    @cached_property
    def gpu(self) -> GpuState | None:
        """The GPU that was chosen, if it exists."""
        chosen = self.view.query.text("gpu")
        host = self.view.query.text("node")
        return next(
            (
                state
                for state in self.cluster.gpus
                if state.now.gpu_uuid == chosen and host in (None, state.now.host)
            ),
            None,
        )

    @cached_property
    def series(self) -> Mapping[str, GpuHeatmap]:
        """The chosen GPU over the chosen time."""
        if self.gpu is None:
            return {}
        host, uuid = self.gpu.now.host, self.gpu.now.gpu_uuid
        return self._memory.ask(
            ("gpu-series", host, uuid, self.view.query.text("span"), self.chosen_span_ns),
            self.span_key,
            lambda: self._service.get_gpu_series(host, uuid, *self.span_ns, _SERIES_BINS),
        )

    @cached_property
    def processes(self) -> Sequence[ProcessMemory]:
        """Processes of the chosen node, or of all, that grew most over the chosen time."""
        return self._memory.ask(
            ("host-processes", self.node, self.view.query.text("span"), self.chosen_span_ns),
            self.span_key,
            lambda: self._service.list_host_processes(
                self.node, *self.span_ns, _PROCESS_BINS, _MAX_PROCESSES
            ),
        )


def gpu_panel() -> Component:
    """Return the panel of the chosen GPU before there is one."""
    return html.Div(
        panel(
            "One GPU",
            graph("cluster-gpu", 300),
            hint="Its clock, power, temperature, activity and memory, over the time chosen below.",
            aside=html.Div(id="cluster-gpu-aside", className="lp-asides"),
        ),
        id="cluster-gpu-panel",
        style={"display": "none"},
    )


def stragglers_panel() -> Component:
    """Return the panel of all runs' paces before its data is there."""
    return panel(
        "Stragglers",
        html.Div(id="cluster-paces", className="lp-wait", style={"--wait": "120px"}),
        hint=DEFINITIONS["of_best"],
        aside="over the last 20 steps of each run; click a GPU to see it over time",
    )


def processes_panel() -> Component:
    """Return the panel of host memory before its data is there."""
    return panel(
        "Host memory of processes",
        html.Div(id="cluster-processes", className="lp-wait", style={"--wait": "120px"}),
        hint=DEFINITIONS["host_processes"],
        aside=html.Div(id="cluster-processes-aside", className="lp-asides"),
        controls=(csv_button("cluster-processes", "host memory of processes"),),
    )


def _paces(reading: HardwareReading) -> tuple[object, ...]:
    if not reading.runs:
        return (absent("No run goes on: paces are compared within a run."),)
    return (
        [
            _pace(at, run, reading.paces[run.run_id], reading.node)
            for at, run in enumerate(reading.runs)
        ],
    )


def _pace(at: int, run: RunSummary, found: RunStragglers, node: str | None) -> Component:
    gpus = [gpu for gpu in found.gpus if node is None or gpu.host == node]
    title = html.Div(
        [
            dcc.Link(run.name, href=run_address(run.run_id), className="lp-link"),
            html.Span(
                "no step has ended yet"
                if not found.num_steps
                else f"steps {found.first_step}–{found.last_step}",
                className="lp-dim",
            ),
        ],
        className="lp-paces-run",
    )
    if not found.num_steps or (node is not None and found.gpus and not gpus):
        words = "None of its GPUs is on this node." if found.num_steps else None
        return html.Div([title, absent(words) if words else None])
    tables = html.Div(
        [
            html.Div(
                titled_table(
                    "GPUs",
                    gpu_paces(gpus, _SHOWN_GPUS),
                    f"cluster-paces-{at}-gpus",
                    f"stragglers of {run.name} gpus",
                )
            ),
            html.Div(
                titled_table(
                    "Replicas",
                    replica_paces(found.replicas, _SHOWN_REPLICAS),
                    f"cluster-paces-{at}-replicas",
                    f"stragglers of {run.name} replicas",
                )
            ),
        ],
        className="lp-paces-pair",
    )
    return html.Div([title, tables])


def _gpu(reading: HardwareReading) -> tuple[object, ...]:
    state = reading.gpu
    if state is None:
        return message_figure("", reading.view.theme), {}, {"display": "none"}, None
    figure = gpu_series(
        reading.series, reading.span_ns, zone=reading.view.zone, theme=reading.view.theme
    )
    aside = [
        html.B(f"{state.now.host} · GPU {state.now.gpu_index}"),
        html.Span(state.now.model),
        dcc.Link("close", href=cluster_address(state.now.host), className="lp-link"),
    ]
    return *fit_height(figure), {}, aside


def _processes(reading: HardwareReading) -> tuple[object, ...]:
    nodes = {node.host: node for node in reading.cluster.nodes}
    chosen = nodes.get(reading.node) if reading.node is not None else None
    return process_table(reading.processes), process_summary(reading.processes, chosen)


PANELS = PanelGroup[HardwareReading](
    name=GROUP,
    path=CLUSTER_PATH,
    read=HardwareReading,
    panels=(
        Panel(
            (
                ("cluster-gpu", "figure"),
                ("cluster-gpu", "style"),
                ("cluster-gpu-panel", "style"),
                ("cluster-gpu-aside", "children"),
            ),
            lambda reading: (
                reading.gpu and (reading.gpu.now.host, reading.gpu.now.gpu_uuid, reading.span_key),
            ),
            _gpu,
        ),
        Panel(
            (("cluster-paces", "children"),),
            lambda reading: (
                reading.node,
                [(run.run_id, run.name, run.num_steps, run.last_step) for run in reading.runs],
            ),
            _paces,
        ),
        Panel(
            (("cluster-processes", "children"), ("cluster-processes-aside", "children")),
            lambda reading: (reading.node, reading.span_key),
            _processes,
        ),
    ),
)
