import logging

import pytest

from longpole_server.cli.waiting import Waiting
from longpole_server.store import Missing


def test_what_is_waited_for_is_said_when_it_changes_and_each_minute(
    caplog: pytest.LogCaptureFixture,
):
    now_s = [100.0]
    caplog.set_level(logging.WARNING)
    waiting = Waiting(Missing("ClickHouse does not answer", "refused by db:8123"), lambda: now_s[0])
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
