"""A server that shows, started before there is anything to show: it waits and says so."""

import re
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import httpx
import pytest

from support.agent_waiting import wait_until
from support.clickhouse_front import ClickHouseFront
from support.doors import add_user
from support.reserved_port import reserved_port
from support.server_process import run_longpole, start_longpole

pytestmark = pytest.mark.integration

Start = Callable[[str], tuple["subprocess.Popen[str]", httpx.Client]]


@pytest.fixture
def front(tmp_path: Path) -> Generator[ClickHouseFront]:
    (tmp_path / "clickhouse").mkdir()
    front = ClickHouseFront(tmp_path / "clickhouse").start()
    yield front
    front.kill()


@pytest.fixture
def start(tmp_path: Path) -> Generator[Start]:
    """Start a server that only shows, on a database at an address."""
    access = tmp_path / "access.json"
    add_user(access, "ana", "admin")
    begun: list[subprocess.Popen[str]] = []
    with (
        reserved_port() as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60.0) as client,
    ):

        def begin(url: str) -> tuple["subprocess.Popen[str]", httpx.Client]:
            process = start_longpole(
                "server", "--role", "web", "--port", str(port), "--clickhouse-url", url,
                "--data-dir", str(tmp_path / "web"), "--access-file", str(access),
                "--writer-url", "http://127.0.0.1:9",
                environment={"LONGPOLE_SESSION_KEY": "k" * 40}, log=tmp_path / "log",
            )  # fmt: skip
            begun.append(process)
            return process, client

        yield begin
        for process in begun:
            process.kill()
            process.wait()


def ask(client: httpx.Client) -> tuple[int, str | None]:
    """Return what `ready` answers, and what is waited for; 0 where nobody answers."""
    try:
        answer = client.get("/api/v1/ready")
    except httpx.TransportError:
        return 0, None
    return answer.status_code, answer.json()["waits_for"]


def test_a_web_waits_for_clickhouse_and_for_its_tables_and_answers_that_it_does(
    front: ClickHouseFront, start: Start, tmp_path: Path
):
    process, client = start(front.url)
    wait_until(lambda: ask(client) == (503, "there are no tables yet"), 120.0)
    assert client.get("/api/v1/health").json()["role"] == "web"
    refused = client.get("/run?id=1")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert "there are no tables yet" in refused.json()["error"]["message"]

    front.kill()
    wait_until(lambda: ask(client) == (503, "ClickHouse does not answer"), 120.0)
    front.start()
    wait_until(lambda: ask(client) == (503, "there are no tables yet"), 120.0)
    migrated = run_longpole(
        "migrate", "--clickhouse-url", front.url, "--data-dir", str(tmp_path / "writer")
    )
    assert migrated.returncode == 0, migrated.stderr

    wait_until(lambda: ask(client) == (200, None), 120.0)
    assert client.get("/login").status_code == 200
    said = (tmp_path / "log").read_text()
    assert re.search(r"waiting for the store since \d+ s: there are no tables yet", said)
    assert "ClickHouse does not answer (" in said
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, said


def test_a_web_that_waits_ends_when_told_to(front: ClickHouseFront, start: Start):
    process, client = start(front.url)
    wait_until(lambda: ask(client)[0] == 503, 120.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
