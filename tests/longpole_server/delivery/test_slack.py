from collections.abc import Generator
from dataclasses import replace

import pytest

from longpole_server.delivery.notice import Thread
from longpole_server.delivery.slack import SlackBot, SlackWebhook
from longpole_server.errors import DeliveryError
from support.alert_events import make_event, make_notice
from support.fake_slack import SECRET_TOKEN, Behaviour, FakeSlack, running_slack

PATIENCE_S = 60


@pytest.fixture
def slack() -> Generator[FakeSlack]:
    with running_slack() as slack:
        yield slack


def choose_timeout_s(behaviour: Behaviour) -> int:
    """Only who never answers is given up soon."""
    return 1 if behaviour == "timeout" else PATIENCE_S


def refuse(slack: FakeSlack, behaviour: Behaviour) -> DeliveryError:
    slack.script.append(behaviour)
    with pytest.raises(DeliveryError) as caught:
        SlackWebhook(slack.webhook_url, choose_timeout_s(behaviour)).send(make_notice())
    assert "secret" not in caught.value.message
    assert caught.value.__cause__ is None
    return caught.value


def test_a_webhook_takes_blocks_with_a_fallback(slack: FakeSlack):
    assert SlackWebhook(slack.webhook_url, PATIENCE_S).send(make_notice()) == ""
    (body,) = slack.taken
    assert body["text"] == ":red_circle: team/run: Loss is not a number"
    assert slack.message_ids() == ["m1"]


def test_an_answer_that_leads_elsewhere_is_not_followed(slack: FakeSlack):
    """It may lead to where only this server can reach."""
    refuse(slack, "redirect")
    assert slack.num_led_elsewhere == 0


@pytest.mark.parametrize(
    ("behaviour", "words", "retry_after_s", "is_final"),
    [
        ("429", "Slack answered 429: rate_limited", 7.0, False),
        ("500", "Slack answered 500: rollup_error", None, False),
        ("403", "Slack answered 403: action_prohibited", None, False),
        ("400", "Slack answered 400: invalid_blocks", None, True),
        ("echo", "Slack answered 404", None, False),
        ("page", "something else than `ok`", None, False),
        ("flood", "something else than `ok`", None, False),
        ("timeout", "did not answer in time", None, False),
        ("redirect", "Slack answered 302", None, False),
        ("garbage", "could not be reached", None, False),
        ("drop", "could not be reached", None, False),
    ],
)
def test_what_is_not_confirmed_was_not_delivered(
    slack: FakeSlack,
    behaviour: Behaviour,
    words: str,
    retry_after_s: float | None,
    is_final: bool,
):
    error = refuse(slack, behaviour)
    assert words in error.message
    assert (error.retry_after_s, error.is_final) == (retry_after_s, is_final)


def test_a_slack_that_is_down_is_named_without_its_address():
    with running_slack() as gone:
        url = gone.webhook_url
    with pytest.raises(DeliveryError) as caught:
        SlackWebhook(url).send(make_notice())
    assert caught.value.message == "Slack could not be reached: ConnectionRefusedError"


OVER = make_event(2, alert_id="alert-1", kind="resolved")


def test_a_bot_answers_in_the_thread_and_strikes_off_what_is_over(slack: FakeSlack):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, PATIENCE_S)
    firing = make_notice()
    remote_id = bot.send(firing)
    assert remote_id.startswith("C042/")
    over = make_notice(
        make_event(2, alert_id="alert-1", kind="resolved"),
        thread=Thread(remote_id, make_notice(ends={"alert-1": OVER})),
    )
    bot.send(over)
    assert slack.taken[0]["channel"] == "#alerts"
    assert slack.taken[1]["thread_ts"] == remote_id.partition("/")[2]
    (update,) = slack.updates
    assert (update["channel"], update["ts"]) == ("C042", remote_id.partition("/")[2])
    assert update["text"].startswith(":white_check_mark:")


@pytest.mark.parametrize("behaviour", ["429", "500", "400", "timeout", "garbage", "page"])
def test_a_bot_says_what_went_wrong_without_its_token(slack: FakeSlack, behaviour: Behaviour):
    slack.script.append(behaviour)
    with pytest.raises(DeliveryError) as caught:
        SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, choose_timeout_s(behaviour)).send(
            make_notice()
        )
    assert "secret" not in caught.value.message
    assert caught.value.is_final == (behaviour == "400")
    if behaviour == "429":
        assert caught.value.retry_after_s == 7.0


def test_a_message_that_cannot_be_changed_is_answered_once(slack: FakeSlack):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, PATIENCE_S)
    over = make_notice(
        make_event(2, alert_id="alert-1", kind="resolved"),
        thread=Thread("C042/1.000001", make_notice(ends={"alert-1": OVER})),
    )
    slack.script.append("gone")
    bot.send(over)
    assert (len(slack.taken), slack.updates) == (1, [])
    # What may succeed later is tried before anybody is told, so that nobody is told twice.
    slack.script.append("500")
    with pytest.raises(DeliveryError):
        bot.send(over)
    assert len(slack.taken) == 1


def test_what_was_told_apart_and_is_over_together_is_struck_off_everywhere(slack: FakeSlack):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, PATIENCE_S)
    other = make_event(3, kind="resolved", alert_id="alert-2")
    roots = (
        Thread("C042/1.000001", make_notice(ends={"alert-1": OVER})),
        Thread("C042/2.000002", make_notice(make_event(2), ends={"alert-2": other})),
    )
    bot.send(make_notice(OVER, other, outdated=roots))
    assert [update["ts"] for update in slack.updates] == ["1.000001", "2.000002"]
    assert "thread_ts" not in slack.taken[0]


@pytest.mark.parametrize(("kind", "is_called"), [("repeated", True), ("resolved", False)])
def test_a_repeat_in_a_thread_is_seen_in_the_channel(slack: FakeSlack, kind: str, is_called: bool):
    bot = SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, PATIENCE_S)
    thread = Thread("C042/1.000001", make_notice())
    bot.send(make_notice(make_event(2, alert_id="alert-1", kind=kind), thread=thread))
    assert slack.taken[0]["thread_ts"] == "1.000001"
    assert str(slack.taken[0].get("reply_broadcast", 0)).lower() in (
        ("1", "true") if is_called else ("0", "false")
    )


def test_a_picture_that_cannot_be_drawn_costs_nothing_else(slack: FakeSlack):
    def draw(_: object) -> None:
        raise ZeroDivisionError

    notice = replace(make_notice(), draw=draw)
    assert SlackBot(SECRET_TOKEN, "#alerts", slack.api_url, PATIENCE_S).send(notice)
    assert len(slack.taken) == 1
