"""A whole server on a ClickHouse reached over HTTP, which goes away and comes back."""

import signal
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import pytest

from support.agent_waiting import wait_until
from support.clickhouse_front import ClickHouseFront
from support.otlp_builders import loop, process, stage, traces
from support.server_process import StartServer, run_longpole, start_longpole

pytestmark = pytest.mark.integration

PASSWORD = "a password"


@pytest.fixture
def front(tmp_path: Path) -> Generator[ClickHouseFront]:
    directory = tmp_path / "clickhouse"
    directory.mkdir()
    front = ClickHouseFront(directory, "longpole", PASSWORD).start()
    yield front
    front.kill()


def test_nothing_acknowledged_is_lost_while_clickhouse_is_away(
    front: ClickHouseFront, start_server: StartServer, tmp_path: Path
):
    directory = tmp_path / "server"
    directory.mkdir()
    password_file = tmp_path / "password"
    password_file.write_text(PASSWORD + "\n")
    options = (
        "--no-agent", "--clickhouse-url", front.url, "--clickhouse-user", "longpole",
        "--clickhouse-password-file", str(password_file),
    )  # fmt: skip
    server = start_server(directory, *options)
    run_id = "external/run"
    path = f"/runs/{quote(run_id, safe='')}/steps"

    def send(step: int) -> None:
        spans = [
            stage("gen", step, step * 10.0, step * 10.0 + 8),
            loop(step, step * 10.0, step * 10.0 + 9),
        ]
        body = traces((process(run_id), spans))
        assert server.send("traces", body, {"longpole-batch-id": f"a/b/{step}"}).status_code == 200

    send(1)
    server.wait_for(path, lambda page: len(page["steps"]) == 1)
    front.kill()
    for step in (2, 3):
        send(step)
    wait_until(lambda: server.client.get("/api/v1/ready").status_code == 503)
    front.start()
    for step in (3, 4):
        send(step)
    server.wait_for(path, lambda page: [step["step"] for step in page["steps"]] == [1, 2, 3, 4])
    assert not (server.data_dir / "store").exists()
    # A second server stands by until the first is gone.
    log, ports = tmp_path / "second.log", tmp_path / "second.ports"
    second = start_longpole(
        "server", "--port", "0", "--no-otlp", "--data-dir", str(tmp_path / "second"),
        "--ports-file", str(ports), *options[1:], log=log,
    )  # fmt: skip
    try:
        wait_until(lambda: "writes into this database" in log.read_text(), 120.0)
        assert not ports.exists()
        assert server.interrupt() == 0, server.log
        wait_until(ports.exists, 120.0)
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) == 0, log.read_text()
    finally:
        second.kill()
        second.wait()
    done = run_longpole(
        "migrate", "--clickhouse-url", front.url, "--clickhouse-user", "longpole",
        environment={"LONGPOLE_CLICKHOUSE_PASSWORD": PASSWORD},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"The store in {front.url} is up to date.\n"
