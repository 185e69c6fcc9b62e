"""One server takes data, others show it: real processes on one ClickHouse reached over HTTP."""

from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from longpole_server.config import Config
from longpole_server.web_app import WebApplication, open_web_application
from support.agent_waiting import wait_until
from support.clickhouse_front import ClickHouseFront
from support.doors import PASSWORD, add_token, add_user, bearer
from support.every_route import OPEN, OTLP, list_requests, list_websockets
from support.otlp_builders import loop, process, stage, traces
from support.server_process import ServerProcess

pytestmark = pytest.mark.integration

RUN_ID = "roles/run"
STEPS = f"/api/v1/runs/{quote(RUN_ID, safe='')}/steps"
KEY = "k" * 40


@dataclass
class Servers:
    """One that takes data, and two that show: a process, and one within this process."""

    writer: ServerProcess
    web: ServerProcess
    near: WebApplication
    admin: dict[str, str]
    viewer: dict[str, str]
    sender: dict[str, str]

    @property
    def webs(self) -> tuple["httpx.Client | TestClient", ...]:
        return self.web.client, self.make_client()

    def make_client(self) -> TestClient:
        return TestClient(
            self.near.api, base_url="http://longpole.example", follow_redirects=False,
            client=("127.0.0.1", 50_000),
        )  # fmt: skip


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Servers]:
    directory = tmp_path_factory.mktemp("roles")
    (directory / "clickhouse").mkdir()
    access = directory / "access.json"
    add_user(access, "ana", "admin")
    admin, viewer, sender = (
        dict(bearer(add_token(access, role))) for role in ("admin", "viewer", "ingest")
    )
    with ExitStack() as opened:
        front = ClickHouseFront(directory / "clickhouse").start()
        opened.callback(front.kill)

        def start(role: str, *options: str) -> ServerProcess:
            server = ServerProcess(
                directory / role, "--role", role, "--clickhouse-url", front.url,
                "--access-file", str(access), *options,
                environment={"LONGPOLE_SESSION_KEY": KEY}, command="server",
            )  # fmt: skip
            opened.callback(server.kill)
            return server

        writer = start("ingest")
        web = start("web", "--writer-url", writer.url)
        config = Config(
            role="web", writer_url=writer.url, clickhouse_url=front.url, access_file=access,
            data_dir=directory / "near", session_key=KEY,
        )  # fmt: skip
        near = opened.enter_context(open_web_application(config))
        near.start()
        yield Servers(writer, web, near, admin, viewer, sender)


def send(servers: Servers, step: int) -> None:
    spans = [
        stage("gen", step, step * 10.0, step * 10.0 + 8), loop(step, step * 10.0, step * 10.0 + 9)
    ]  # fmt: skip
    body = traces((process(RUN_ID), spans))
    headers = {"longpole-batch-id": f"a/b/{step}", **servers.sender}
    assert servers.writer.send("traces", body, headers).status_code == 200


def list_steps(client: "httpx.Client | TestClient", headers: Mapping[str, str]) -> list[int]:
    answer = client.get(STEPS, headers=headers)
    return [step["step"] for step in answer.json()["steps"]] if answer.status_code == 200 else []


def wait_for_steps(servers: Servers, steps: list[int]) -> None:
    wait_until(lambda: all(list_steps(web, servers.viewer) == steps for web in servers.webs), 120.0)


def test_what_is_sent_to_one_server_is_shown_by_the_others(servers: Servers):
    send(servers, 1)
    wait_for_steps(servers, [1])
    wait_until(lambda: servers.near.follower.away_s == 0, 120.0)
    version, revision = servers.near.changes.current.version, servers.near.revisions.of(RUN_ID)
    # What was read is kept until the other server says that it changed, and pages are told.
    send(servers, 2)
    wait_for_steps(servers, [1, 2])
    wait_until(lambda: servers.near.revisions.of(RUN_ID) > revision, 120.0)
    wait_until(lambda: servers.near.changes.current.version > version, 120.0)


def test_a_server_that_shows_takes_no_data_and_says_where_to_send(servers: Servers):
    refused = servers.web.send("traces", traces((process(RUN_ID), [])), servers.sender)
    assert refused.status_code == 404
    assert f"127.0.0.1:{servers.writer.ports['http']}" in refused.json()["error"]["hint"]
    assert set(servers.web.ports) == {"http"}
    asked = servers.web.client.get("/api/v1/services", headers=servers.sender)
    assert (asked.status_code, asked.json()["error"]["code"]) == (404, "no_ingest")


def test_the_server_that_takes_data_has_no_pages(servers: Servers):
    assert servers.writer.client.get("/", headers=servers.viewer).status_code == 404
    page = servers.web.client.get("/", headers=servers.viewer)
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]


def test_a_silence_made_at_one_is_in_force_at_all(servers: Servers):
    document = {"rule": "gpu", "author": "x", "comment": "a test", "duration_s": 600}
    made = servers.web.client.post("/api/v1/silences", json=document, headers=servers.admin)
    assert made.status_code == 201, made.text
    silence_id = made.json()["silence_id"]

    def is_known(client: Any) -> bool:
        found = client.get("/api/v1/silences", headers=servers.admin).json()["silences"]
        return silence_id in {each["silence_id"] for each in found}

    assert is_known(servers.writer.client)
    wait_until(lambda: all(map(is_known, servers.webs)), 120.0)
    path = f"/api/v1/silences/{silence_id}"
    assert servers.web.client.delete(path, headers=servers.viewer).status_code == 403
    audit = servers.web.client.get("/api/v1/audit", headers=servers.admin).json()["entries"]
    assert "silence.add" in {entry["action"] for entry in audit}


def test_why_a_rule_is_quiet_is_asked_of_the_server_that_judges(servers: Servers):
    here, there = (
        client.get("/api/v1/rules", headers=servers.viewer).json()["rules"]
        for client in (servers.web.client, servers.writer.client)
    )
    assert [rule["rule_id"] for rule in here] == [rule["rule_id"] for rule in there]
    assert not any("does not answer" in (rule["quiet_because"] or "") for rule in here)


def test_who_signs_out_at_one_is_out_at_the_other(servers: Servers):
    url = servers.web.url
    fields = {"name": "ana", "password": PASSWORD}
    signed_in = httpx.post(f"{url}/login?next=/", data=fields, timeout=60.0)
    assert signed_in.status_code == 303, signed_in.text
    cookie = {"cookie": f"longpole_session={signed_in.cookies['longpole_session']}"}

    def ask() -> list[int]:
        # Clients that keep no cookies of their own.
        far = httpx.get(f"{url}/api/v1/me", headers=cookie, timeout=60.0)
        return [
            far.status_code, servers.make_client().get("/api/v1/me", headers=cookie).status_code
        ]  # fmt: skip

    assert ask() == [200, 200]
    foreign = httpx.post(f"{url}/logout", headers={**cookie, "origin": "http://elsewhere"})
    assert foreign.status_code == 403
    # The form of a page: its origin is the server that shows it.
    out = httpx.post(f"{url}/logout", headers={**cookie, "origin": url}, timeout=60.0)
    assert out.status_code == 303
    wait_until(lambda: ask() == [401, 401], 120.0)


def test_attempts_at_passwords_count_together(servers: Servers):
    fields = {"name": "bob", "password": "wrong"}
    statuses: list[int] = []
    # Each alone would let six of twelve be tried.
    for _ in range(6):
        statuses += [web.post("/login", data=fields).status_code for web in servers.webs]
    assert set(statuses) == {401, 429}


def test_the_stranger_is_refused_at_every_route_of_a_server_that_shows(servers: Servers):
    api, client = servers.near.api, servers.make_client()
    requests = list_requests(api)
    assert {("GET", "/api/v1/runs"), ("POST", "/_dash-update-component")} <= requests
    # What is passed on has no route of its own here.
    requests |= {("POST", "/api/v1/import"), ("GET", "/api/v1/scrape-targets")}
    for method, path in sorted(requests):
        status = client.request(method, path).status_code
        if path in OTLP:
            assert status in {404, 405}, (method, path)
        else:
            assert status in {OPEN.get((method, path), 401), 403, 429}, (method, path)
    for path in list_websockets(api):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect(path):
            pass


def test_news_are_for_servers_with_the_key_and_for_who_sees_everything(servers: Servers):
    path = f"{servers.writer.url}/api/v1/changes"
    forged = {"x-longpole-voucher": "W10.forged"}
    assert httpx.get(path, timeout=60.0).status_code == 401
    assert httpx.get(path, headers=forged, timeout=60.0).status_code == 401
    assert httpx.get(path, headers=servers.sender, timeout=60.0).status_code == 403
    told = httpx.get(path, headers=servers.viewer, timeout=60.0).json()
    assert (told["is_everything"], told["runs"]) == (True, [])


def test_pages_are_read_while_the_writer_is_away(servers: Servers):
    servers.writer.kill()
    web = servers.web.client
    assert list_steps(web, servers.viewer) == [1, 2]
    assert web.get("/", headers=servers.viewer).status_code == 200
    assert web.get("/api/v1/ready").status_code == 200
    rules = web.get("/api/v1/rules", headers=servers.viewer)
    assert "does not answer" in rules.json()["rules"][0]["quiet_because"]
    document = {"rule": "gpu", "author": "x", "comment": "", "duration_s": 600}
    refused = web.post("/api/v1/silences", json=document, headers=servers.admin)
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "writer_away"
    away = "longpole_writer_away_seconds 0.0"
    wait_until(lambda: away not in web.get("/metrics", headers=servers.viewer).text, 120.0)
