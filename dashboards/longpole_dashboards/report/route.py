"""`GET /report?run=`: a run's report to keep."""

import re
from collections.abc import Callable
from urllib.parse import quote

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from longpole_dashboards.addresses import REPORT_PATH
from longpole_dashboards.formats import Zone
from longpole_dashboards.reading import Reader
from longpole_dashboards.report.document import render_report
from longpole_server.errors import ForbiddenError, NotFoundError, ServerError

# It has no script, and asks nobody for anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def register_report(api: FastAPI, reader: Reader, clock_ns: Callable[[], int]) -> None:
    """Add the route."""

    async def report(request: Request) -> Response:
        run_id = request.query_params.get("run")
        if not run_id:
            return PlainTextResponse("Name a run: /report?run=RUN", 400)
        zone = Zone.from_browser({"name": request.query_params.get("zone") or "UTC"})
        try:
            text = await reader.run(render_report, reader.service, run_id, zone, clock_ns())
        except NotFoundError as error:
            return PlainTextResponse(_describe(error), 404)
        except ForbiddenError as error:
            return PlainTextResponse(_describe(error), 403)
        except ServerError as error:
            return PlainTextResponse(_describe(error), 503)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", run_id).strip("-.") or "run"
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(name)}-report.html",
            "content-security-policy": _POLICY,
        }
        return HTMLResponse(text, headers=headers)

    api.add_route(REPORT_PATH, report, methods=["GET"], include_in_schema=False)


def _describe(error: ServerError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
