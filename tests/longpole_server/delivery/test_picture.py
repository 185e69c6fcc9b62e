"""Evidence as a picture, and its way into the thread of an alert."""

import struct
from collections.abc import Generator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from longpole_server.delivery.picture import Evidence, Picture, draw_evidence, list_ticks
from longpole_server.delivery.slack import SlackBot
from longpole_server.model.alert import AlertEvent
from support.alert_events import make_event, make_notice
from support.fake_slack import SECRET_TOKEN, FakeSlack, running_slack

VALUES = [0.1, 0.12, 0.11, 0.4]


@pytest.fixture
def slack() -> Generator[FakeSlack]:
    with running_slack() as slack:
        yield slack


def test_it_is_a_png_with_words():
    picture = draw_evidence(Evidence("Reward", range(1, 5), VALUES, "1", 0.3, 0.11, 4))
    assert picture is not None
    assert picture.png.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture.png[16:24]) == (1_200, 520)
    assert picture.alt_text == "Reward: 0.1 in step 1, 0.4 in step 4, limit 0.3"


@pytest.mark.parametrize("values", [[], [1.0], [float("nan"), 1.0]])
def test_nothing_is_drawn_of_nothing(values: list[float]):
    assert draw_evidence(Evidence("x", range(len(values)), values, "1")) is None


_NUMBERS = st.floats(-1e12, 1e12)


@settings(max_examples=15)
@given(st.lists(_NUMBERS, min_size=2, max_size=5), _NUMBERS, _NUMBERS)
def test_any_numbers_can_be_drawn(values: list[float], threshold: float, baseline: float):
    evidence = Evidence("x", range(len(values)), values, "s", threshold, baseline, 1)
    assert draw_evidence(evidence) is not None


@example(929314209.449606, 1e-06)  # a span near what a double of that size can hold
@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_and_inside(low: float, span: float):
    ticks = list_ticks(low, low + span)
    assert len(ticks) <= 6
    assert all(low <= tick <= low + span for tick in ticks)


def open_bot(slack: FakeSlack) -> SlackBot:
    return SlackBot(SECRET_TOKEN, "C042", slack.api_url, timeout_s=60)


def draw(event: AlertEvent) -> Picture | None:
    return Picture(b"\x89PNG picture", f"evidence of {event.rule}", "a line that rises")


def test_a_bot_puts_one_picture_a_rule_into_the_thread(slack: FakeSlack):
    events = (make_event(1), make_event(2), make_event(3, rule="gpu.lost"))
    remote_id = open_bot(slack).send(make_notice(*events, draw=draw))
    assert [each["thread_ts"] for each in slack.shown] == [remote_id.partition("/")[2]] * 2
    assert [each["files"][0]["title"] for each in slack.shown] == [
        "evidence of loss.nan",
        "evidence of gpu.lost",
    ]
    assert set(slack.uploads.values()) == {b"\x89PNG picture"}
    assert not slack.problems


def test_a_message_counts_though_its_picture_fails(slack: FakeSlack):
    slack.script.extend(["ok", "500"])
    remote_id = open_bot(slack).send(make_notice(draw=draw))
    assert remote_id.startswith("C042/")
    assert len(slack.taken) == 1
    assert slack.shown == []
