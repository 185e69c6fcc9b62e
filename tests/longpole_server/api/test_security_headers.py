import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from longpole_server.api.security_headers import SecurityHeadersMiddleware


async def answer(request: Request) -> PlainTextResponse:
    said = request.query_params.get("says")
    return PlainTextResponse("x", headers={"Cache-Control": said} if said else {})


@pytest.mark.parametrize(
    ("path", "asks_who", "expected"),
    [
        ("/api/v1/runs", True, "private, no-store"),
        ("/run", True, "private, no-store"),
        ("/api/v1/runs", False, "private, no-cache"),
        ("/login?says=no-store", False, "no-store"),
        ("/assets/x.css", True, None),
        ("/_dash-component-suites/dash/x.js", True, None),
        ("/assets/x.css?says=max-age%3D9", True, "max-age=9"),
    ],
)
def test_what_somebody_was_shown_stays_nowhere(path: str, asks_who: bool, expected: str | None):
    app = Starlette(routes=[Route("/{path:path}", answer)])
    client = TestClient(SecurityHeadersMiddleware(app, asks_who=lambda: asks_who))
    assert client.get(path).headers.get("cache-control") == expected
