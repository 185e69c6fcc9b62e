"""Mounts the dashboards on the server's FastAPI application."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from dash import Dash
from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware

from longpole_dashboards.addresses import (
    ALERTS_PATH,
    CLUSTER_PATH,
    COMPARE_PATH,
    RUN_PATH,
    RUNS_PATH,
    SAMPLE_PATH,
    STEP_PATH,
)
from longpole_dashboards.callback_door import CallbackDoor
from longpole_dashboards.compressed import CompressedFiles
from longpole_dashboards.first_sight import FirstSight, Page
from longpole_dashboards.libraries import (
    find_chart_library,
    leave_out_unused,
    shorten_library,
)
from longpole_dashboards.live import Ticks, register_push
from longpole_dashboards.pages import alerts, cluster, compare, run, runs, sample, step
from longpole_dashboards.reading import Reader
from longpole_dashboards.report.route import register_report
from longpole_dashboards.script_policy import insert_policy
from longpole_dashboards.shell import (
    CHART_LIBRARY_PLACE,
    CHART_PATHS,
    EARLY_SCRIPT,
    INDEX_STRING,
    chart_library_script,
    first_questions_script,
    missing_page,
    register_shell,
    shell_layout,
)
from longpole_server.service import Service


class Dashboards(Dash):
    """Dash, whose layout is made for each visit."""

    first_sight: FirstSight

    def interpolate_index(self, **parts: str) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the page of scripts; where charts are, with their library among them.

        By itself Dash reads it once the first chart asks for it. Here it is read while the
        server still works for the page.
        """
        parts["scripts"] = leave_out_unused(parts["scripts"])
        request = cast("Any", self.backend).request_adapter()
        if request and request.path in CHART_PATHS:
            address = find_chart_library(cast("str", self.config.requests_pathname_prefix))
            parts["scripts"] += f'\n<script src="{address}"></script>'
        return super().interpolate_index(**parts)

    async def serve_layout(self, request: Request) -> Response:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Answer the first question of a browser."""
        return await self.first_sight.answer(request)


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
    app = Dashboards(
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
    api.user_middleware.append(Middleware(CompressedFiles, edit=shorten_library))
    app.layout = shell_layout
    reader = Reader(service)
    register_report(api, reader, clock_ns)
    ticks = Ticks(reader, clock_ns)
    app.first_sight = FirstSight(app, reader, ticks, _PAGES, shell_layout, missing_page)
    register_push(app, reader, ticks)
    register_shell(app, {path: page.layout for path, page in _PAGES.items()})
    for page in _PAGES.values():
        page.register(app, reader)
    # Before Dash, which was put in front by itself.
    api.user_middleware.insert(0, Middleware(CallbackDoor, find_dash=lambda: app))
    # Dash collects scripts and styles at its first request, but on FastAPI only when that is for
    # `/`: a server whose first visitor follows a link to a run would serve a page without them.
    app._setup_server()  # noqa: SLF001 - see above  # pyright: ignore[reportPrivateUsage]
    prefix = cast("str", app.config.requests_pathname_prefix)
    script = first_questions_script(prefix) + chart_library_script(find_chart_library(prefix))
    index = INDEX_STRING.replace(CHART_LIBRARY_PLACE, f"<script>{script}</script>")
    # One script in the place of a hundred, each with its own hash.
    scripts = cast("list[str]", app._inline_scripts)  # noqa: SLF001 - see above  # pyright: ignore[reportPrivateUsage]
    scripts[:] = ["\n".join(scripts)]
    app.index_string = insert_policy(index, app.csp_hashes(), [EARLY_SCRIPT, script])
