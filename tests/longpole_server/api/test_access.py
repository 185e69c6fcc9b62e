import base64
import contextlib
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from longpole_server.api.access import AccessMiddleware
from longpole_server.api.login import Door, create_login_routes
from longpole_server.api.peers import Proxies, parse_networks
from longpole_server.auth.audit import AuditLog
from longpole_server.auth.entries import edit_entries
from longpole_server.service.asking import who_asks
from support.doors import add_token, add_user, bearer, make_door, sign_in

TOKEN = "s3cret-of-the-server"
URL = "http://longpole.example:8470"

OpenDoor = Callable[..., TestClient]


async def answer(request: Request) -> JSONResponse:
    asker = who_asks()
    return JSONResponse([asker.principal.name, asker.principal.role, asker.address])


async def answer_websocket(websocket: WebSocket) -> None:
    await websocket.accept()
    with contextlib.suppress(WebSocketDisconnect):
        while True:
            await websocket.receive_text()
            await websocket.send_text(who_asks().principal.name)


@pytest.fixture
def open_door(tmp_path: Path) -> Generator[OpenDoor]:
    doors: list[Door] = []

    def open_one(token: str | None = TOKEN, **fields: object) -> TestClient:
        door = make_door(tmp_path, token, **fields)  # type: ignore[arg-type]
        doors.append(door)
        app = Starlette(
            routes=[
                *create_login_routes(door),
                WebSocketRoute("/socket", answer_websocket),
                Route("/{path:path}", answer, methods=["GET", "POST", "DELETE"]),
            ]
        )
        own_paths = frozenset({"/clickhouse/"})
        app.add_middleware(AccessMiddleware, access=door.access, own_paths=own_paths)
        return TestClient(app, base_url=URL, follow_redirects=False, client=("10.1.2.3", 1))

    yield open_one
    for door in doors:
        door.audit.close()


def open_socket(client: TestClient) -> Any:
    """Open a websocket as a browser does: with the cookies and the page it is from."""
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    headers = {"Cookie": cookies, "Origin": "http://testserver"}
    return client.websocket_connect("/socket", headers=headers)


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"me:{password}".encode()).decode()


def test_the_server_s_token_lets_in(open_door: OpenDoor):
    client = open_door()
    for value in (f"Bearer {TOKEN}", f"bearer {TOKEN}", basic(TOKEN)):
        assert client.get("/api/v1/runs", headers={"Authorization": value}).status_code == 200


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer wrong", TOKEN, f"Token {TOKEN}", "Basic !!!", basic("wrong"), "Basic "],
)
def test_anything_else_does_not(open_door: OpenDoor, value: str):
    refused = open_door().get("/api/v1/runs", headers={"Authorization": value})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "unauthorized"
    assert refused.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in refused.text


def test_without_a_token_and_users_everybody_is_let_in(open_door: OpenDoor):
    client = open_door(None)
    assert client.get("/api/v1/runs").json() == ["everybody", "admin", "10.1.2.3"]
    assert client.get("/login?next=/runs").headers["location"] == "/runs"


def test_a_stranger_s_name_for_this_machine_is_refused_where_nobody_is_asked(open_door: OpenDoor):
    client = open_door(None, hosts=frozenset({"localhost", "longpole.example"}))
    assert client.get("/api/v1/runs").status_code == 200
    assert client.get("/api/v1/runs", headers={"Host": "127.0.0.1:8470"}).status_code == 200
    assert client.get("/api/v1/runs", headers={"Host": "[::1]:8470"}).status_code == 200
    refused = client.get("/api/v1/runs", headers={"Host": "rebound.example"})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "unknown_host"
    # Nor whether there is a server, and of which version.
    for path in ("/api/v1/health", "/api/v1/ready", "/login"):
        assert client.get(path, headers={"Host": "rebound.example"}).status_code == 403, path
    assert client.get("/api/v1/health", headers={"Host": ""}).status_code == 200


REBOUND = {
    "Host": "rebound.example",
    "Origin": "http://rebound.example",
    "Sec-Fetch-Site": "same-origin",
}


def test_a_rebound_name_asks_no_sql_and_a_sender_s_own_name_may_send(open_door: OpenDoor):
    client = open_door(None, hosts=frozenset({"longpole.example"}))
    for path in ("/clickhouse/", "/login", "/logout", "/api/v1/health"):
        refused = client.post(path, headers=REBOUND)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "unknown_host")
    assert client.post("/clickhouse/").status_code == 200
    for path in ("/v1/traces", "/v1/metrics", "/v1/logs"):
        assert client.post(path, headers={"Host": "gpu-head"}).status_code == 200
        assert client.get(path, headers={"Host": "gpu-head"}).status_code == 403


@pytest.mark.parametrize("token", [None, TOKEN])
def test_another_site_s_page_asks_no_sql(open_door: OpenDoor, token: str | None):
    client = open_door(token)
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        refused = client.post("/clickhouse/", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "cross_origin")


@pytest.mark.parametrize(
    ("server", "page", "status"),
    [
        ("http", "http", 200),
        ("https", "https", 200),
        # Written by who is on the way.
        ("https", "http", 403),
        # A proxy ends TLS that this server does not know.
        ("http", "https", 200),
        ("http", "ftp", 403),
    ],
)
def test_a_page_of_this_name_without_tls_changes_nothing_over_tls(
    open_door: OpenDoor, server: str, page: str, status: int
):
    client = open_door(None)
    client.base_url = f"{server}://longpole.example"
    origin = {"Origin": f"{page}://longpole.example"}
    assert client.post("/api/v1/rules", headers=origin).status_code == status


@pytest.mark.parametrize("page", ["http", "https"])
def test_a_trusted_proxy_says_that_a_page_came_over_tls(open_door: OpenDoor, page: str):
    client = open_door(None, proxies=Proxies(parse_networks("10.0.0.0/8")))
    headers = {"Origin": URL.replace("http", page, 1), "X-Forwarded-Proto": "https"}
    status = client.post("/api/v1/rules", headers=headers).status_code
    assert status == (200 if page == "https" else 403)


def test_a_browser_that_says_another_site_is_believed(open_door: OpenDoor):
    headers = {"Origin": URL, "Sec-Fetch-Site": "cross-site"}
    assert open_door(None).post("/api/v1/rules", headers=headers).status_code == 403


@pytest.mark.parametrize("token", [None, TOKEN])
def test_another_site_s_page_changes_nothing(
    open_door: OpenDoor, tmp_path: Path, token: str | None
):
    if token is not None:
        add_user(tmp_path / "access.json", "ana", "admin")
    client = open_door(token)
    if token is not None:
        assert sign_in(client, "ana").status_code == 303
    foreign = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert client.post("/api/v1/rules", headers=foreign).status_code == 403
    assert client.delete("/api/v1/rules/x", headers={"Origin": "null"}).status_code == 403
    assert client.post("/api/v1/rules", headers={"Origin": URL}).status_code == 200
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/socket", headers=foreign):
        pass


def test_a_person_signs_in_and_keeps_a_cookie(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    client = open_door(None)
    asked = client.get("/run?id=a&step=3", headers={"Accept": "text/html"})
    assert asked.status_code == 303
    assert asked.headers["location"] == "/login?next=%2Frun%3Fid%3Da%26step%3D3"
    assert 'name="password"' in client.get(asked.headers["location"]).text
    signed_in = sign_in(client, "ana")
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "/run?id=a")
    cookie = signed_in.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie
    assert client.get("/api/v1/runs").json()[:2] == ["ana", "viewer"]
    with open_socket(client) as socket:
        socket.send_text("who")
        assert socket.receive_text() == "ana"
        assert client.post("/logout").headers["location"] == "/login"
        socket.send_text("who")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()
    assert client.get("/api/v1/runs").status_code == 401
    # Nor with a copy of the cookie that somebody took before.
    copied = {"Cookie": cookie.partition(";")[0]}
    assert client.get("/api/v1/runs", headers=copied).status_code == 401


def test_over_tls_the_cookie_never_travels_in_clear(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    client = open_door(None)
    client.base_url = "https://longpole.example"
    assert "Secure" in sign_in(client, "ana").headers["set-cookie"]


def test_the_token_alone_signs_in_too(open_door: OpenDoor):
    client = open_door()
    assert sign_in(client, "", TOKEN).status_code == 303
    assert client.get("/api/v1/runs").json()[:2] == ["the server's token", "admin"]


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example", "/\\evil.example", "runs", "/\n/x"]
)
def test_signing_in_leads_nowhere_else(open_door: OpenDoor, target: str):
    client = open_door()
    answered = client.post("/login", params={"next": target}, data={"password": TOKEN})
    assert answered.headers["location"] == "/"


def test_wrong_passwords_are_refused_and_then_not_even_tried(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    client = open_door(None)
    for _ in range(6):
        refused = sign_in(client, "ana", "wrong password")
        assert refused.status_code == 401
        assert "not known here" in refused.text
    waiting = sign_in(client, "ana")
    assert waiting.status_code == 429
    assert 0 < int(waiting.headers["retry-after"]) <= 5
    assert "Try again in" in waiting.text
    assert "set-cookie" not in waiting.headers


def test_strangers_keep_nobody_out_of_a_browser_they_used_before(
    open_door: OpenDoor, tmp_path: Path
):
    add_user(tmp_path / "access.json", "ana")
    client = open_door(None)
    marked = sign_in(client, "ana")
    (mark,) = (each for each in marked.headers.get_list("set-cookie") if "browser" in each)
    assert "httponly" in mark.lower()
    assert "path=/login" in mark.lower()
    assert "samesite=strict" in mark.lower()
    stranger = TestClient(
        client.app, base_url=URL, follow_redirects=False, client=("198.51.100.7", 1)
    )
    # Even one behind the same address, where everybody is behind one.
    nearby = TestClient(client.app, base_url=URL, follow_redirects=False, client=("10.1.2.3", 1))
    for tried in (stranger, nearby):
        for _ in range(6):
            sign_in(tried, "ana", "wrong password")
        assert sign_in(tried, "ana", "wrong password").status_code == 429
    assert sign_in(client, "ana").status_code == 303
    # From a new browser at another address, too.
    elsewhere = TestClient(
        client.app, base_url=URL, follow_redirects=False, client=("192.0.2.55", 1)
    )
    assert sign_in(elsewhere, "ana").status_code == 303
    # And a token opens the door wherever it is brought.
    token = add_token(tmp_path / "access.json", "admin")
    client.app.user_middleware[0].kwargs["access"].book._looked_s = -1e9  # type: ignore[attr-defined]
    assert sign_in(nearby, "ana", token).status_code == 303


def test_who_tries_on_does_not_flood_the_audit_log(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    client = open_door(None)
    for _ in range(40):
        sign_in(client, "", "wrong password")
    with contextlib.closing(AuditLog(tmp_path / "audit.jsonl")) as log:
        entries = log.list_newest(100)
    outcomes = [entry.outcome for entry in reversed(entries)]
    assert outcomes == ["refused: wrong password"] * 21 + ["refused: too many attempts"]


def test_a_password_from_another_site_s_form_is_not_taken(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana")
    refused = sign_in(open_door(None), "ana", Origin="https://elsewhere.example")
    assert refused.status_code == 403


def test_a_changed_password_ends_sessions_and_open_websockets(open_door: OpenDoor, tmp_path: Path):
    file = tmp_path / "access.json"
    add_user(file, "ana")
    door_time = [0.0]
    client = open_door(None)
    book = client.app.user_middleware[0].kwargs["access"].book  # type: ignore[attr-defined]
    book._monotonic_s = lambda: door_time[0]
    sign_in(client, "ana")
    with open_socket(client) as socket:
        socket.send_text("who")
        assert socket.receive_text() == "ana"
        with edit_entries(file) as entries:
            entries.users["ana"].password = entries.users["ana"].password + "x"
        door_time[0] += 1e9
        socket.send_text("who")
        with pytest.raises(WebSocketDisconnect):
            socket.receive_text()
    assert client.get("/api/v1/runs").status_code == 401


def test_tokens_do_what_their_role_says(open_door: OpenDoor, tmp_path: Path):
    file = tmp_path / "access.json"
    ingest, viewer, admin = (add_token(file, role) for role in ("ingest", "viewer", "admin"))
    bound = add_token(file, "admin", ["a"])
    client = open_door(None)
    asked = {
        ("GET", "/api/v1/runs"): (403, 200, 200, 200),
        ("GET", "/run"): (403, 200, 200, 200),
        ("POST", "/_dash-update-component"): (403, 200, 200, 200),
        ("POST", "/api/v1/rules"): (403, 403, 200, 200),
        ("DELETE", "/api/v1/silences/x"): (403, 403, 200, 200),
        ("POST", "/api/v1/import"): (200, 403, 200, 403),
        ("GET", "/api/v1/audit"): (403, 403, 200, 403),
        ("GET", "/api/v1/scrape-targets"): (200, 403, 200, 403),
        ("POST", "/api/v1/prometheus/targets"): (200, 403, 200, 403),
        ("GET", "/metrics"): (200, 200, 200, 200),
    }
    for (method, path), statuses in asked.items():
        found = tuple(
            client.request(method, path, headers=bearer(token)).status_code
            for token in (ingest, viewer, admin, bound)
        )
        assert found == statuses, path


def test_a_revoked_or_expired_token_lets_nobody_in(open_door: OpenDoor, tmp_path: Path):
    file = tmp_path / "access.json"
    expired = add_token(file, "viewer", expires_ns=1)
    client = open_door(None)
    assert client.get("/api/v1/runs", headers=bearer(expired)).status_code == 401
    assert client.get("/api/v1/runs", headers=bearer(expired[:-1] + "x")).status_code == 401


def test_a_trusted_proxy_names_people_and_nobody_else_can(open_door: OpenDoor, tmp_path: Path):
    add_user(tmp_path / "access.json", "ana", "admin")
    named = {"X-Forwarded-User": "ana", "X-Forwarded-For": "6.6.6.6, 192.0.2.7, 10.9.9.9"}
    trusted = Proxies(parse_networks("10.0.0.0/8"), "x-forwarded-user")
    client = open_door(None, proxies=trusted)
    assert client.get("/api/v1/runs", headers=named).json() == ["ana", "admin", "192.0.2.7"]
    other = client.get("/api/v1/runs", headers={**named, "X-Forwarded-User": "bo"})
    assert other.json()[:2] == ["bo", "viewer"]
    elsewhere = Proxies(parse_networks("192.168.0.0/16"), "x-forwarded-user")
    assert open_door(None, proxies=elsewhere).get("/", headers=named).status_code == 401
