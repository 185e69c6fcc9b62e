"""Every route and websocket of the whole server, tried by a stranger and by those it knows."""

import asyncio
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from longpole_server.app import Application, open_application
from longpole_server.config import Config
from support.agent_waiting import wait_until
from support.doors import add_token, add_user, bearer, sign_in
from support.every_route import OPEN, OTLP, list_requests, list_websockets

# Of these a page is made; no program calls them by itself.
OF_PAGES = re.compile(r"/($|_|assets)")
API_PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def access_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("access") / "access.json"
    add_user(file, "ana", "viewer", ["a"])
    return file


@pytest.fixture(scope="module")
def application(
    tmp_path_factory: pytest.TempPathFactory, access_file: Path
) -> Generator[Application]:
    config = Config(data_dir=tmp_path_factory.mktemp("data"), access_file=access_file)
    with open_application(config) as opened:
        opened.start()
        yield opened


@pytest.fixture
def client(application: Application) -> TestClient:
    return TestClient(
        application.api, base_url="http://longpole.example", follow_redirects=False,
        raise_server_exceptions=False,
    )  # fmt: skip


def list_routes(application: Application) -> set[tuple[str, str]]:
    """Methods and paths that programs and people call, as a reference writes them."""
    found = {
        (method.upper(), path)
        for path, methods in application.api.openapi()["paths"].items()
        for method in methods
    }
    for route in application.api.routes:
        path = str(getattr(route, "path", None) or "/")
        if OF_PAGES.match(path) or path in {"/api", "/v1"} or path.endswith("{rest:path}"):
            continue
        methods = getattr(route, "methods", None) or ({"POST"} if path in OTLP else set[str]())
        found |= {(method, path) for method in methods if method != "HEAD"}
    return {(method, path.rstrip("/")) for method, path in found}


def test_the_stranger_is_refused_at_every_route(application: Application, client: TestClient):
    requests = list_requests(application.api)
    assert {("GET", "/api/v1/runs"), ("POST", "/_dash-update-component")} <= requests
    assert len(requests) > 70
    for method, path in sorted(requests):
        status = client.request(method, path).status_code
        if path in OTLP:
            assert status in {401, 405, 415}, (method, path)
        else:
            assert status in {OPEN.get((method, path), 401), 403}, (method, path)


def test_the_api_page_has_every_route_and_no_other(application: Application):
    page = API_PAGE.read_text("utf-8")
    written = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^\s`?]+)`", page)
    documented = {(method, path.rstrip("/")) for method, path in written}
    assert documented == list_routes(application)


def test_a_head_is_that_of_the_page(client: TestClient):
    for path in ("/api/v1/health", "/login", "/clickhouse/ping"):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
    assert client.head("/api/v1/runs").status_code == 401


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_another_method_is_refused_and_says_which_would_do(
    client: TestClient, access_file: Path, method: str
):
    headers = bearer(add_token(access_file, "admin"))
    wait_until(lambda: client.get("/api/v1/runs", headers=headers).status_code == 200)
    for path, allowed in (("/api/v1/runs", "GET"), ("/v1/traces", "POST"), ("/metrics", "GET")):
        refused = client.request(method, path, headers=headers)
        assert (refused.status_code, refused.headers["allow"]) == (405, allowed)
    assert client.request(method, "/api/v1/none", headers=headers).status_code == 404


def test_the_stranger_is_refused_at_every_websocket(application: Application, client: TestClient):
    paths = list_websockets(application.api)
    assert "/_dash-ws-callback" in paths
    for path in paths:
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(path):
            pass


def test_a_request_s_body_is_not_taken_from_a_stranger(client: TestClient):
    headers = {"content-type": "application/x-protobuf"}
    for path in OTLP:
        assert client.post(path, content=b"", headers=headers).status_code == 401


def test_one_request_with_a_long_quoted_cookie_does_not_stop_the_server(
    application: Application, client: TestClient
):
    refused = {"Cookie": 'a="' + "\\" * 60_000 + '"'}
    for method, path in sorted(list_requests(application.api)):
        assert client.request(method, path, headers=refused).status_code == 431, (method, path)
    for path in list_websockets(application.api):
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect(path, headers=refused),
        ):
            pass


def test_every_answer_tells_browsers_to_be_careful(client: TestClient):
    for path in ("/", "/login", "/api/v1/runs", "/api/v1/health"):
        headers = client.get(path, headers={"accept": "text/html"}).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "no-store" in headers["cache-control"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert len(headers["content-security-policy"]) < 1_000, "proxies refuse long headers"


def test_who_sees_one_project_reads_no_sql(client: TestClient, access_file: Path):
    bound = add_token(access_file, "viewer", ["a"])
    sender = add_token(access_file, "ingest")
    whole = add_token(access_file, "viewer")

    def ask(token: str) -> int:
        return client.get("/clickhouse/?query=SELECT+1", headers=bearer(token)).status_code

    wait_until(lambda: ask(whole) == 200)
    assert [ask(token) for token in (bound, sender, "wrong")] == [403, 403, 403]


def test_signing_in_is_written_down(client: TestClient, access_file: Path):
    admin = add_token(access_file, "admin")
    assert sign_in(client, "ana").status_code == 303
    assert client.get("/api/v1/me").json() == {
        "name": "ana", "role": "viewer", "projects": ["a"], "signed_in": True,
    }  # fmt: skip
    assert client.get("/api/v1/audit").status_code == 403
    client.cookies.clear()
    wait_until(lambda: client.get("/api/v1/audit", headers=bearer(admin)).status_code == 200)
    entries = client.get("/api/v1/audit", headers=bearer(admin)).json()["entries"]
    (begun,) = (
        each for each in entries if each["action"] == "session.begin" and each["who"] == "ana"
    )
    assert begun["outcome"] == "done"
    added = [each["target"] for each in entries if each["action"] == "access.change"]
    assert any(text.endswith("added, admin of all projects") for text in added)


@pytest.mark.parametrize(
    "path", ["/", "/_dash-update-component", "/api/v1/rules", "/api/v1/import", "/anything"]
)
async def test_of_a_stranger_no_body_is_read(application: Application, path: str):
    status, num_read = await post_chunks(application, path, [])
    assert (status, num_read) == (401, 0)


async def test_a_body_that_is_too_large_is_not_kept(application: Application, access_file: Path):
    token = add_token(access_file, "admin")
    header = (b"authorization", f"Bearer {token}".encode())
    status = 401
    while status == 401:
        # Known within a second.
        status, _ = await post_chunks(application, "/api/v1/channels/none", [header], num=1)
        await asyncio.sleep(0.05)
    for path in ("/_dash-update-component", "/api/v1/rules"):
        status, num_read = await post_chunks(application, path, [header], num=1_000)
        assert status == 413
        # Eight megabytes and the one that was too much.
        assert num_read <= 9


async def post_chunks(
    application: Application, path: str, headers: list[tuple[bytes, bytes]], num: int = 1_000
) -> tuple[int, int]:
    """Send JSON a megabyte at a time; return the status, and how many were taken."""
    num_read = 0
    statuses: list[int] = []

    async def receive() -> Message:
        nonlocal num_read
        if num_read == num:
            return {"type": "http.disconnect"}
        num_read += 1
        return {"type": "http.request", "body": b" " * (1 << 20), "more_body": num_read < num}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [
            (b"host", b"longpole.example"),
            (b"content-type", b"application/json"),
            *headers,
        ],
        "client": ("198.51.100.7", 1),
        "server": ("longpole.example", 80),
        "state": {},
    }
    await application.api(scope, receive, send)
    return statuses[0], num_read
