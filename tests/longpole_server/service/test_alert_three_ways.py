"""A run that goes wrong in three ways at once, from its steps to what stands in Slack."""

import json
from pathlib import Path

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.delivery.slack import SlackWebhook
from longpole_server.service.alert_delivery import AlertDeliverer
from support.fake_slack import FakeSlack, running_slack
from support.server_runs import RunScript
from support.server_service import ServiceBench, opened_bench

RUN_ID = "team/breaks"
TITLES = ("Loss is not a number", "Staleness bound exceeded", "Stale samples dropped")


def test_it_is_one_message_that_can_be_read(tmp_path: Path):
    with opened_bench(tmp_path / "store") as bench, running_slack() as slack:
        train(bench, slack)
    assert slack.titles() == [f"{RUN_ID}: 3 alerts"]
    (body,) = slack.taken
    text = json.dumps(body, ensure_ascii=False)
    assert [text.count(f"*{title}*") for title in TITLES] == [1, 1, 1], text
    # A headline, for each alert what is wrong and why, and the message's id.
    assert len(body["blocks"]) == 8, text
    assert len(text) < 5_000
    assert slack.problems == []


def train(bench: ServiceBench, slack: FakeSlack) -> None:
    """Ten steps, the last eight of them wrong, and a minute after them."""
    deliverer = AlertDeliverer(
        [SlackWebhook(slack.webhook_url, timeout_s=60)],
        bench.alert_store,
        lambda: {rule.rule_id: rule.title for rule in BUILT_IN_RULES},
        "http://dashboard",
        bench.clock.now_ns,
    )
    bench.alert_desk.book.add_listener(deliverer.on_events)
    run = RunScript(RUN_ID)
    bench.write(run.start(staleness_bound=2.0))
    for step in range(1, 11):
        is_wrong = step >= 3
        values = {
            "actor/pg_loss": float("nan") if is_wrong else 0.2,
            "training/off_policy/trajectory_staleness/max": 5.0 if is_wrong else 1.0,
            "stale_drop_ratio": 0.4 if is_wrong else 0.0,
        }
        bench.write(run.whole_step(step, 10.0 * (step - 1)), run.scalars(step, 10.0 * step, values))
        for _ in range(10):
            bench.clock.seconds += 1.0
            bench.alert_desk.evaluator.process()
            deliverer.process()
    for _ in range(60):
        bench.clock.seconds += 1.0
        deliverer.process()
