"""Delivery from the store: nothing is lost, what is confirmed is not repeated, no secret shows."""

import itertools
import json
import logging
from collections.abc import Generator
from dataclasses import replace

import pytest

from longpole_server.delivery.channel import Channel
from longpole_server.delivery.notice import Notice
from longpole_server.delivery.outbox import Pace
from longpole_server.delivery.slack import SlackBot, SlackWebhook
from longpole_server.errors import DeliveryError, StoreError
from longpole_server.model.alert import AlertEvent, AlertMessage, Delivery
from longpole_server.service import alert_delivery
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.alert_delivery import AlertDeliverer
from support.alert_events import make_event
from support.fake_slack import SECRET_TOKEN, FakeSlack, running_slack
from support.server_runs import S
from support.server_service import HandClock, ServiceBench


@pytest.fixture
def slack() -> Generator[FakeSlack]:
    with running_slack() as slack:
        yield slack


@pytest.fixture
def clock(bench: ServiceBench) -> HandClock:
    # Each test a time of its own: they share a store, and a deliverer remembers two weeks.
    bench.clock.seconds = next(_DAYS) * 86_400.0
    return bench.clock


_DAYS = itertools.count(20, 20)


def open_deliverer(
    bench: ServiceBench,
    *channels: Channel,
    store: AlertStore | None = None,
    digest_s: float = 0.0,
) -> AlertDeliverer:
    return AlertDeliverer(
        channels,
        store or bench.alert_store,
        lambda: {"loss.nan": "Loss is not a number"},
        "http://dashboard",
        bench.clock.now_ns,
        Pace(group_interval_s=0.0, digest_s=digest_s),
    )


def store_event(bench: ServiceBench, run_id: str, number: int = 1, **fields: object) -> AlertEvent:
    now_ns = bench.clock.now_ns()
    event = make_event(
        number,
        event_id=f"{run_id}/{number}",
        alert_id=f"{run_id}/{fields.pop('alert', number)}",
        run_id=run_id,
        run_name=run_id,
        project="",
        decided_ns=now_ns,
        ts_ns=now_ns,
        **fields,
    )
    bench.alert_store.writer.write_events([event])
    return event


def pass_time(bench: ServiceBench, deliverer: AlertDeliverer, seconds: float) -> None:
    """Let the deliverer work once a second."""
    for _ in range(round(seconds)):
        bench.clock.seconds += 1.0
        deliverer.process()


def test_it_arrives_and_the_channel_says_so(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 9)
    assert slack.taken == [], "others may follow within the wait"
    pass_time(bench, deliverer, 3)
    assert slack.titles() == [f"{run_id}: Loss is not a number"]
    (status,) = deliverer.list_channels()
    assert (status.num_delivered, status.num_waiting, status.last_error) == (1, 0, None)


def test_three_things_at_once_are_one_message(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    for number, rule in enumerate(("loss.nan", "kl.high", "run.stalled"), 1):
        deliverer.on_events([store_event(bench, run_id, number, rule=rule)])
        bench.clock.seconds += 2.0
    pass_time(bench, deliverer, 12)
    assert slack.titles() == [f"{run_id}: 3 alerts"]


def test_a_slack_that_fails_in_every_way_gets_each_message_in_the_end(
    bench: ServiceBench,
    clock: HandClock,
    run_id: str,
    slack: FakeSlack,
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG)
    slack.script.extend(["500", "garbage", "page", "403", "429"])
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 120)
    assert len(slack.taken) == 1
    (status,) = deliverer.list_channels()
    assert (status.num_delivered, status.num_failed, status.last_error) == (1, 0, None)
    tries = [
        delivery
        for delivery in bench.alert_store.reader.list_deliveries(clock.now_ns() - 3_600 * S)
        if delivery.channel == "slack"
    ]
    assert [each.outcome for each in tries] == [*["retry"] * 5, "delivered"]
    asked = tries[4]
    assert asked.next_ns is not None
    assert asked.next_ns - asked.ts_ns == 7 * S, "429 named 7 s"
    assert "secret" not in caplog.text + "".join(each.error for each in tries)


def test_what_is_down_for_long_is_told_with_its_reason_and_then_given_up(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    slack.default = "500"
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    for _ in range(160):
        bench.clock.seconds += 601.0
        deliverer.process()
    (status,) = deliverer.list_channels()
    assert (status.num_waiting, status.num_failed) == (0, 1)
    assert status.last_error == "Slack answered 500: rollup_error"


def test_a_message_that_slack_never_takes_is_given_up_at_once(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    slack.script.append("400")
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 15)
    assert slack.num_requests == 1
    assert deliverer.list_channels()[0].num_failed == 1


def test_a_restart_at_any_moment_loses_nothing_and_repeats_nothing_confirmed(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    webhook = SlackWebhook(slack.webhook_url, timeout_s=60)
    store_event(bench, run_id)
    # Killed before it took note of the event; the next one before it sends; and so on.
    deliverer = open_deliverer(bench, webhook)
    bench.clock.seconds += 11.0
    slack.script.append("500")
    deliverer.process()
    deliverer = open_deliverer(bench, webhook)
    assert deliverer.list_channels()[0].num_waiting == 1
    pass_time(bench, deliverer, 10)
    assert len(slack.taken) == 1
    for _ in range(3):
        deliverer = open_deliverer(bench, webhook)
        pass_time(bench, deliverer, 12)
    assert len(slack.taken) == 1


class Forgetful:
    """A store that dies after a message went out and before that is noted."""

    def __init__(self, store: AlertStore) -> None:
        self._writer = store.writer
        self.write_message = store.writer.write_message

    def write_delivery(self, delivery: Delivery) -> None:
        raise StoreError("gone")


def test_what_was_sent_and_not_noted_is_sent_again_under_the_same_id(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    webhook = SlackWebhook(slack.webhook_url, timeout_s=60)
    store_event(bench, run_id)
    forgetful = replace(bench.alert_store, writer=Forgetful(bench.alert_store))  # type: ignore[arg-type]
    deliverer = open_deliverer(bench, webhook, store=forgetful)
    bench.clock.seconds += 11.0
    with pytest.raises(StoreError):
        deliverer.process()
    deliverer = open_deliverer(bench, webhook)
    pass_time(bench, deliverer, 10)
    first, second = slack.message_ids()
    assert first == second


def test_a_bot_answers_in_the_thread_also_after_a_restart(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, timeout_s=60)
    deliverer = open_deliverer(bench, bot)
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 12)
    deliverer = open_deliverer(bench, bot)
    deliverer.on_events([store_event(bench, run_id, 2, alert=1, kind="resolved")])
    pass_time(bench, deliverer, 14)
    assert slack.taken[1]["thread_ts"]
    (update,) = slack.updates
    assert update["text"] == f":white_check_mark: {run_id}: over: Loss is not a number"


def test_one_channel_that_fails_does_not_keep_it_from_another(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    class Broken:
        name = "broken"
        kind = "broken"

        def send(self, notice: Notice) -> str:
            raise RuntimeError(f"a text with a secret about {notice.message_id}")

    deliverer = open_deliverer(bench, Broken(), SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 12)
    assert len(slack.taken) == 1
    broken, _ = deliverer.list_channels()
    assert broken.last_error == "the channel failed: RuntimeError"


def test_what_was_not_told_for_a_day_is_no_news(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    store_event(bench, run_id)
    bench.clock.seconds += 86_500.0
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    pass_time(bench, deliverer, 12)
    assert slack.taken == []


def test_a_digest_is_whole_and_told_once_whatever_was_restarted(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    webhook = SlackWebhook(slack.webhook_url, timeout_s=60)
    deliverer = open_deliverer(bench, webhook, digest_s=3_600.0)
    for number, rule in enumerate(("loss.nan", "kl.high", "run.stalled"), 1):
        # Killed before it took note of this one, and after it took note of those before.
        store_event(bench, run_id, number, severity="warning", rule=rule)
        deliverer = open_deliverer(bench, webhook, digest_s=3_600.0)
        pass_time(bench, deliverer, 2)
        bench.clock.seconds += 1_100.0
    assert slack.taken == []
    bench.clock.seconds += 600.0
    for _ in range(3):
        deliverer = open_deliverer(bench, webhook, digest_s=3_600.0)
        pass_time(bench, deliverer, 12)
    assert slack.titles() == [f"{run_id}: 3 alerts"]


@pytest.mark.parametrize("digest_s", [86_400.0, 7 * 86_400.0])
def test_a_digest_of_days_is_told_though_the_server_was_down_when_it_was_due(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack, digest_s: float
):
    store_event(bench, run_id, 1, severity="warning")
    store_event(bench, f"{run_id}/other", severity="critical")
    bench.clock.seconds += digest_s + 600.0
    webhook = SlackWebhook(slack.webhook_url, timeout_s=60)
    deliverer = open_deliverer(bench, webhook, digest_s=digest_s)
    pass_time(bench, deliverer, 12)
    assert slack.titles() == [f"{run_id}: Loss is not a number"], "the other is no news any more"


def test_its_thread_ends_and_what_is_left_stays_due(
    bench: ServiceBench, clock: HandClock, run_id: str
):
    class Down:
        name = "down"
        kind = "down"

        def send(self, notice: Notice) -> str:
            raise DeliveryError("no")

    deliverer = open_deliverer(bench, Down())
    deliverer.start()
    deliverer.on_events([store_event(bench, run_id)])
    deliverer.close()
    bench.clock.seconds += 11.0
    deliverer = open_deliverer(bench, Down())
    deliverer.process()
    assert deliverer.list_channels()[0].num_waiting == 1


class Refusing:
    """A store that takes nothing until it is mended."""

    def __init__(self, store: AlertStore) -> None:
        self._writer = store.writer
        self.is_broken = True

    def write_message(self, message: AlertMessage) -> None:
        self._check()
        self._writer.write_message(message)

    def write_delivery(self, delivery: Delivery) -> None:
        self._check()
        self._writer.write_delivery(delivery)

    def _check(self) -> None:
        if self.is_broken:
            raise StoreError("the disk is full")


def test_a_store_that_refuses_for_the_night_does_not_keep_messages_back(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    writer = Refusing(bench.alert_store)
    webhook = SlackWebhook(slack.webhook_url, timeout_s=60)
    store = replace(bench.alert_store, writer=writer)  # type: ignore[arg-type]
    deliverer = open_deliverer(bench, webhook, store=store)
    deliverer.on_events([store_event(bench, run_id)])
    bench.clock.seconds += 11.0
    with pytest.raises(StoreError):
        deliverer.process()
    bench.clock.seconds += 61.0
    deliverer.process()
    assert len(slack.taken) == 1
    pass_time(bench, deliverer, 5)
    writer.is_broken = False
    pass_time(bench, deliverer, 2)
    # Written down in the end: a restart does not tell again.
    deliverer = open_deliverer(bench, webhook)
    pass_time(bench, deliverer, 14)
    assert len(slack.taken) == 1
    assert deliverer.list_channels()[0].num_delivered == 1


def test_two_messages_that_end_together_are_both_struck_off(
    bench: ServiceBench, clock: HandClock, run_id: str, slack: FakeSlack
):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, timeout_s=60)
    deliverer = open_deliverer(bench, bot)
    for number in (1, 2):
        deliverer.on_events([store_event(bench, run_id, number)])
        pass_time(bench, deliverer, 12)
    bench.clock.seconds += 100.0
    for number in (1, 2):
        deliverer.on_events([store_event(bench, run_id, number + 2, alert=number, kind="resolved")])
    pass_time(bench, deliverer, 14)
    assert len(slack.taken) == 3
    assert [update["text"] for update in slack.updates] == [
        f":white_check_mark: {run_id}: over: Loss is not a number"
    ] * 2
    told = json.dumps(slack.updates)
    assert told.count("It lasted") == 2
    assert "It lasted 0 s" not in told


def test_a_message_outlives_the_memory_of_its_events(
    bench: ServiceBench,
    clock: HandClock,
    run_id: str,
    slack: FakeSlack,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(alert_delivery, "_MAX_EVENTS", 1)
    slack.script.append("500")
    deliverer = open_deliverer(bench, SlackWebhook(slack.webhook_url, timeout_s=60))
    deliverer.on_events([store_event(bench, run_id)])
    pass_time(bench, deliverer, 11)
    deliverer.on_events([store_event(bench, f"{run_id}-other", 2)])
    pass_time(bench, deliverer, 20)
    assert len(slack.taken) == 2
