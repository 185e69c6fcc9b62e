"""People's own SQL against a whole server."""

import threading
from pathlib import Path

import httpx
import pytest

from support.agent_waiting import wait_until
from support.server_process import StartServer

pytestmark = pytest.mark.integration

TOKEN = "a-token-for-tests"


def test_the_door_takes_the_token_and_does_not_hold_the_server_up(
    start_server: StartServer, tmp_path: Path
):
    server = start_server(tmp_path, "--no-agent", environment={"LONGPOLE_TOKEN": TOKEN})
    address = f"{server.url}/clickhouse/"
    key = {"X-ClickHouse-Key": TOKEN}
    sql = "SELECT count() FROM run_starts"
    assert httpx.post(address, content=sql, headers=key, timeout=60.0).text == "0\n"
    assert httpx.post(address, content=sql, timeout=60.0).status_code == 403
    assert httpx.get(f"{address}ping", timeout=60.0).text == "Ok.\n"
    assert httpx.get(f"{address}anything", headers=key, timeout=60.0).status_code in {401, 404}

    answers: list[httpx.Response | None] = []

    def ask_too_much() -> None:
        try:
            endless = "SELECT sum(number) FROM numbers(1000000000000)"
            answers.append(httpx.post(address, content=endless, headers=key, timeout=60.0))
        except httpx.HTTPError:
            answers.append(None)

    asking = threading.Thread(target=ask_too_much)
    asking.start()
    running = "SELECT count() FROM system.one"
    wait_until(
        lambda: httpx.post(address, content=running, headers=key, timeout=60.0).status_code == 200
    )
    status = server.interrupt()
    asking.join()
    assert status == 0, server.log
    assert len(answers) == 1


def test_the_door_can_be_left_out(start_server: StartServer, tmp_path: Path):
    server = start_server(tmp_path, "--no-agent", "--no-sql-door")
    answer = httpx.post(f"{server.url}/clickhouse/", content="SELECT 1", timeout=60.0)
    assert answer.status_code == 404
