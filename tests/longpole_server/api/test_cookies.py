from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from longpole_server.api.cookies import (
    MARK_COOKIE,
    MAX_BYTES,
    SESSION_COOKIE,
    OwnCookiesMiddleware,
    read_cookie,
)

BACKSLASHES = "\\" * 4_000
QUOTED = f'a="{BACKSLASHES}"'


async def answer(request: Request) -> JSONResponse:
    return JSONResponse([request.headers.get("cookie"), request.cookies])


async def answer_websocket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_json([websocket.headers.get("cookie"), websocket.cookies])
    await websocket.close()


@pytest.fixture
def client() -> TestClient:
    app = Starlette(
        routes=[
            Route("/", answer, methods=["GET", "POST"]),
            WebSocketRoute("/ws", answer_websocket),
        ]
    )
    return TestClient(OwnCookiesMiddleware(app))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (None, None),
        ("", None),
        (";;=; ", None),
        (f"{SESSION_COOKIE}=.eJx_-a.b", ".eJx_-a.b"),
        (f"other=1;{SESSION_COOKIE} = x ; {MARK_COOKIE}=y", "x"),
        (f"{SESSION_COOKIE}=a; {SESSION_COOKIE}=b", "b"),
        (f'{SESSION_COOKIE}="a"', None),
        (f"{SESSION_COOKIE}=", None),
        (SESSION_COOKIE, None),
        (f"x{SESSION_COOKIE}=a", None),
        # What http.cookies stops at does not hide what stands behind it.
        (f"bad name=1; {QUOTED}; {SESSION_COOKIE}=a", "a"),
    ],
)
def test_a_cookie_is_read_as_it_stands(header: str | None, value: str | None):
    assert read_cookie(header, SESSION_COOKIE) == value


@pytest.mark.parametrize(
    "cookie", [QUOTED, f'{SESSION_COOKIE}="{BACKSLASHES}"', f'"{BACKSLASHES}"', "theme=dark"]
)
def test_nothing_behind_decodes_a_stranger_s_quoted_cookie(client: TestClient, cookie: str):
    headers = {"Cookie": f"{cookie}; {MARK_COOKIE}=m.1; {SESSION_COOKIE}=s.1"}
    only_ours = [
        f"{MARK_COOKIE}=m.1; {SESSION_COOKIE}=s.1",
        {MARK_COOKIE: "m.1", SESSION_COOKIE: "s.1"},
    ]
    assert client.get("/", headers=headers).json() == only_ours
    opened: Any = client.websocket_connect("/ws", headers=headers)
    with opened as socket:
        assert socket.receive_json() == only_ours
    assert client.get("/", headers={"Cookie": cookie}).json() == [None, {}]


def test_cookies_of_sixty_kilobytes_are_refused_unread(client: TestClient):
    headers = {"Cookie": 'a="' + "\\" * 60_000 + '"'}
    for method in ("GET", "POST"):
        refused = client.request(method, "/", headers=headers)
        assert refused.status_code == 431
        assert refused.json()["error"]["message"] == "the cookies are larger than 32,768 bytes"
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws", headers=headers):
        pass


def test_the_largest_cookies_that_fit_pass(client: TestClient):
    fits: Mapping[str, str] = {"Cookie": "a=" + "x" * (MAX_BYTES - 2)}
    assert client.get("/", headers=fits).status_code == 200
    assert client.get("/", headers={"Cookie": fits["Cookie"] + "x"}).status_code == 431
