import base64

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from longpole_server.api.access import AccessMiddleware, TokenCheck

TOKEN = "s3cret-of-the-server"


async def answer(_: object) -> PlainTextResponse:
    return PlainTextResponse("in")


async def answer_websocket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("in")
    await websocket.close()


@pytest.fixture
def client() -> TestClient:
    app = Starlette(
        routes=[
            WebSocketRoute("/socket", answer_websocket),
            Route("/{path:path}", answer, methods=["GET", "POST"]),
        ]
    )
    app.add_middleware(AccessMiddleware, check=TokenCheck(TOKEN))
    return TestClient(app, base_url="http://127.0.0.1")


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def test_the_token_lets_in(client: TestClient):
    for value in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)):
        assert client.get("/api/v1/runs", headers={"Authorization": value}).status_code == 200
        client.cookies.clear()


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer wrong", TOKEN, f"Token {TOKEN}", "Basic !!!", basic("wrong"), "Basic "],
)
def test_anything_else_does_not(client: TestClient, value: str):
    refused = client.get("/api/v1/runs", headers={"Authorization": value})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "unauthorized"
    assert refused.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in refused.text


def test_health_is_open(client: TestClient):
    assert client.get("/api/v1/health").status_code == 200
    assert client.get("/api/v1/ready").status_code == 200


def test_otlp_receivers_ask_for_themselves(client: TestClient):
    assert client.post("/v1/traces").status_code == 200


def test_a_browser_is_asked_once_and_keeps_a_cookie_for_its_websockets(client: TestClient):
    asked = client.get("/", headers={"Accept": "text/html"})
    assert asked.status_code == 401
    assert asked.headers["www-authenticate"].startswith("Basic")
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/socket"):
        pass
    let_in = client.get("/", headers={"Authorization": basic(TOKEN)})
    cookie = let_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    kept = {"cookie": cookie.partition(";")[0]}
    session = client.websocket_connect("/socket", headers=kept)
    with session:
        assert session.receive_text() == "in"


def test_programs_get_no_cookie(client: TestClient):
    answer = client.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
    assert "set-cookie" not in answer.headers
