"""Mounts the dashboards on the server's FastAPI application."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

import plotly
from dash import Dash
from dash.development.base_component import Component
from dash.fingerprint import build_fingerprint
from fastapi import FastAPI
from starlette.middleware import Middleware

from longpole_dashboards.addresses import (
    ALERTS_PATH,
    CLUSTER_PATH,
    COMPARE_PATH,
    RUN_PATH,
    RUNS_PATH,
    SAMPLE_PATH,
    STEP_PATH,
    Query,
)
from longpole_dashboards.callback_door import CallbackDoor
from longpole_dashboards.compressed import CompressedFiles
from longpole_dashboards.live import register_push
from longpole_dashboards.pages import alerts, cluster, compare, run, runs, sample, step
from longpole_dashboards.reading import Reader
from longpole_dashboards.report.route import register_report
from longpole_dashboards.script_policy import insert_policy
from longpole_dashboards.shell import (
    CHART_LIBRARY_PLACE,
    EARLY_SCRIPT,
    INDEX_STRING,
    chart_library_script,
    register_shell,
    shell_layout,
)
from longpole_server.service import Service

_CHART_LIBRARY = "package_data/plotly.min.js"


class Page(Protocol):
    """What a module of `pages` is."""

    def layout(self, query: Query, /) -> Component:
        """Return the page before its data is there."""
        ...

    def register(self, app: Dash, reader: Reader) -> None:
        """Register its callbacks."""
        ...


_PAGES: Mapping[str, Page] = MappingProxyType(
    {
        RUNS_PATH: runs,
        RUN_PATH: run,
        STEP_PATH: step,
        SAMPLE_PATH: sample,
        COMPARE_PATH: compare,
        CLUSTER_PATH: cluster,
        ALERTS_PATH: alerts,
    }
)


def mount(api: FastAPI, service: Service, *, clock_ns: Callable[[], int] = time.time_ns) -> None:
    """Serve the dashboards from `api`, reading through `service`.

    Call it once per process, after the API's own routes are there (unknown addresses answer with
    the dashboards' page) and before the application starts.

    Args:
        api: The application whose root becomes the dashboards.
        service: What the dashboards read.
        clock_ns: The server's clock, UTC nanoseconds; browsers measure ages against it.
    """
    app = Dash(
        __name__,
        # Dash types it as a flag or a factory, and takes an application too.
        server=cast("Any", api),
        use_pages=False,
        pages_folder="",
        title="Longpole",
        update_title="",
        index_string=INDEX_STRING,
        suppress_callback_exceptions=True,
        serve_locally=True,
        # A quiet run is no reason to hang up.
        websocket_inactivity_timeout=0,
    )
    # Innermost: whoever may not come in gets no file either.
    api.user_middleware.append(Middleware(CompressedFiles))
    # Made for each visitor: the header says who is signed in.
    app.layout = shell_layout
    reader = Reader(service)
    register_report(api, reader, clock_ns)
    register_push(app, reader, clock_ns)
    register_shell(app, {path: page.layout for path, page in _PAGES.items()})
    for page in _PAGES.values():
        page.register(app, reader)
    # Before Dash, which was put in front by itself.
    api.user_middleware.insert(0, Middleware(CallbackDoor, find_dash=lambda: app))
    # Dash collects scripts and styles at its first request, but on FastAPI only when that is for
    # `/`: a server whose first visitor follows a link to a run would serve a page without them.
    app._setup_server()  # noqa: SLF001 - see above  # pyright: ignore[reportPrivateUsage]
    script = chart_library_script(_chart_library_address(app))
    index = INDEX_STRING.replace(CHART_LIBRARY_PLACE, f"<script>{script}</script>")
    app.index_string = insert_policy(index, app.csp_hashes(), [EARLY_SCRIPT, script])


def _chart_library_address(app: Dash) -> str:
    """Return where Plotly's script is, by a name that changes with it."""
    file = Path(str(plotly.__file__)).parent / _CHART_LIBRARY
    name = build_fingerprint(_CHART_LIBRARY, metadata.version("plotly"), int(file.stat().st_mtime))
    return f"{app.config.requests_pathname_prefix}_dash-component-suites/plotly/{name}"
