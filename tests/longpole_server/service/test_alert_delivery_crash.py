"""A server killed at any moment while Slack misbehaves: every transition arrives in the end."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from longpole_server.delivery.slack import SlackWebhook
from longpole_server.read.alerts import open_alert_reader
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.alert_delivery import AlertDeliverer
from longpole_server.store import StoreConfig, open_store
from support.alert_child import PACE
from support.fake_slack import Behaviour, FakeSlack, running_slack

_DEADLINE_S = 100.0


def raise_until_killed(directory: Path, slack: FakeSlack, first: int, count: int) -> int:
    """Let a process raise alerts, kill it amid its work, and return the last it has stored."""
    with subprocess.Popen(
        [sys.executable, "-m", "support.alert_child", str(directory), str(slack.port), str(first)],
        stdout=subprocess.PIPE,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TMPDIR": str(directory.parent),
        },
    ) as child:
        assert child.stdout is not None
        stored = [int(child.stdout.readline()) for _ in range(count)]
        child.kill()
        rest = child.stdout.read().splitlines(keepends=True)
        stored += [int(line) for line in rest if line.endswith(b"\n")]
        return stored[-1]


def script(slack: FakeSlack, *behaviours: Behaviour) -> None:
    slack.retry_after_s = 1
    slack.script.extend(behaviours)


def deliver_the_rest(directory: Path, slack: FakeSlack) -> set[str]:
    """Let a server that is not killed finish; return what all events say."""
    store = open_store(StoreConfig(directory=directory))
    alert_store = AlertStore(open_alert_reader(store), store.new_alert_writer())
    deliverer = AlertDeliverer(
        [SlackWebhook(slack.webhook_url, timeout_s=60)], alert_store, dict, pace=PACE
    )
    deliverer.start()
    deadline_s = time.monotonic() + _DEADLINE_S
    while deliverer.num_left and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not deliverer.num_left, f"not told within {_DEADLINE_S:g} s"
    deliverer.close()
    events = {event.summary for event in alert_store.reader.list_events_since(0)}
    alert_store.writer.close()
    alert_store.reader.close()
    store.close()
    return events


def test_every_alert_arrives_whatever_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "store"
    with running_slack() as slack:
        script(slack, "500", "ok", "429")
        # The alert after the last one said to be stored may be stored or not.
        last = raise_until_killed(directory, slack, 1, 15)
        script(slack, "drop", "garbage", "timeout")
        last = raise_until_killed(directory, slack, last + 2, 10)
    # Nobody listens for a while.
    last = raise_until_killed(directory, slack, last + 2, 6)
    with running_slack(slack.port) as again:
        script(again, "page")
        raise_until_killed(directory, again, last + 2, 6)
        events = deliver_the_rest(directory, again)
    taken = [*slack.taken, *again.taken]
    told = set(re.findall(r"number \d+", json.dumps(taken)))
    assert len(events) >= 37
    assert events <= told, "none is lost"
    by_id: dict[str, set[str]] = {}
    for message_id, body in zip([*slack.message_ids(), *again.message_ids()], taken, strict=True):
        by_id.setdefault(message_id, set()).add(json.dumps(body["blocks"]))
    assert all(len(texts) == 1 for texts in by_id.values()), "the same id says the same"
    repeats = len(taken) - len(by_id)
    assert repeats <= 6, "only where a kill, a drop or a timeout came between"
    assert slack.problems == again.problems == []
