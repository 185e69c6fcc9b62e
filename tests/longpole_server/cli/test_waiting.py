import asyncio
import logging
import socket
import threading

import httpx
import pytest

from longpole_server.cli.waiting import Waiting, wait_for_store
from longpole_server.store import Missing
from longpole_server.store.location import StoreConfig


def test_what_is_waited_for_is_said_when_it_changes_and_each_minute(
    caplog: pytest.LogCaptureFixture,
):
    now_s = [100.0]
    caplog.set_level(logging.WARNING)
    waiting = Waiting(lambda: now_s[0])
    assert waiting.tell() == "ClickHouse's first answer"
    waiting.note(Missing("ClickHouse does not answer", "refused by db:8123"))
    for _ in range(59):
        now_s[0] += 1.0
        waiting.note(Missing("ClickHouse does not answer", "refused by db:8123"))
    assert len(caplog.messages) == 1
    now_s[0] += 1.0
    waiting.note(Missing("ClickHouse does not answer", "refused by db:8123"))
    waiting.note(Missing("its tables lack migration 0017_merges"))

    assert caplog.messages == [
        "waiting for the store since 0 s: ClickHouse does not answer (refused by db:8123)",
        "waiting for the store since 60 s: ClickHouse does not answer (refused by db:8123)",
        "waiting for the store since 60 s: its tables lack migration 0017_merges",
    ]
    # Anybody may ask: the database's place is for the log alone.
    waiting.note(Missing("ClickHouse does not answer", "refused by db:8123"))
    assert waiting.tell() == "ClickHouse does not answer"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_web_lives_while_its_first_look_at_the_store_takes_long(*, is_there: bool):
    """Nobody answered before the first look had ended, and the probe of a pod's start killed it."""
    may_end = threading.Event()

    def look(_: StoreConfig) -> Missing | None:
        may_end.wait()
        return None if is_there else Missing("there are no tables yet")

    async def run() -> tuple[httpx.Response, httpx.Response, bool]:
        stop = asyncio.Event()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            config = StoreConfig(url="http://127.0.0.1:9")
            waiting = asyncio.create_task(wait_for_store(config, listener, None, stop, look))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"
            async with httpx.AsyncClient(timeout=60.0) as client:
                health, ready = await client.get(f"{url}/health"), await client.get(f"{url}/ready")
            may_end.set()
            if not is_there:
                stop.set()
            return health, ready, await waiting

    try:
        health, ready, found = asyncio.run(run())
    finally:
        may_end.set()
    assert (health.status_code, health.json()["role"]) == (200, "web")
    assert (ready.status_code, ready.json()["waits_for"]) == (503, "ClickHouse's first answer")
    assert found is is_there
