import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.delivery.outbox import (
    DIGEST,
    GIVE_UP_AFTER_S,
    Due,
    Outbox,
    Pace,
)
from longpole_server.model.alert import AlertMessage, Delivery, DeliveryOutcome
from support.alert_events import make_event
from support.alert_histories import S, at

GROUP_WAIT_S = Pace().group_wait_s


def wait_s(seconds: float) -> int:
    return at(11 + seconds)


def compose(outbox: Outbox, now_ns: int) -> list[AlertMessage]:
    messages = outbox.compose(now_ns)
    for message in messages:
        outbox.close_group(message)
    return messages


def answer(due: Due, outcome: DeliveryOutcome, ts_ns: int, next_ns: int | None = None) -> Delivery:
    error = "" if outcome == "delivered" else "no"
    return Delivery(
        due.message.message_id, due.channel, due.attempt, outcome, error, "", ts_ns, next_ns
    )


def test_events_of_a_run_within_the_wait_are_one_message():
    outbox = Outbox(["slack"])
    for event in (make_event(1), make_event(2), make_event(3, run_id="other")):
        outbox.add_event(event)
    assert compose(outbox, wait_s(GROUP_WAIT_S - 1)) == []
    (message,) = compose(outbox, wait_s(GROUP_WAIT_S))
    assert message.event_ids == ("event-1", "event-2")
    (other,) = compose(outbox, wait_s(GROUP_WAIT_S + 5))
    assert other.run_id == "other"
    assert compose(outbox, wait_s(1_000)) == []


def test_what_becomes_a_message_is_never_counted_as_nothing_that_waits():
    counts: list[int] = []

    class Watched(Outbox):
        def add_message(self, message: AlertMessage) -> None:
            counts.append(self.num_gathering + self.count_waiting("slack"))
            super().add_message(message)
            counts.append(self.num_gathering + self.count_waiting("slack"))

    outbox = Watched(["slack"])
    outbox.add_event(make_event())
    compose(outbox, wait_s(60))
    assert len(counts) == 2
    assert all(counts)


def test_what_follows_a_message_about_a_run_is_gathered_for_longer():
    outbox = Outbox(["slack"])
    outbox.add_event(make_event(1, decided_ns=at(0), severity="warning"))
    (first,) = compose(outbox, at(GROUP_WAIT_S))
    for number, seconds in ((2, 40), (3, 70), (4, 100)):
        outbox.add_event(make_event(number, decided_ns=at(seconds), severity="warning"))
        assert compose(outbox, at(seconds + GROUP_WAIT_S)) == []
    (second,) = compose(outbox, at(GROUP_WAIT_S + Pace().group_interval_s))
    assert (len(first.event_ids), len(second.event_ids)) == (1, 3)
    outbox.add_event(make_event(5, decided_ns=at(140), severity="critical"))
    (grave,) = compose(outbox, at(140 + GROUP_WAIT_S))
    assert grave.event_ids == ("event-5",), "what is graver does not wait"
    outbox.add_event(make_event(6, decided_ns=at(160), severity="critical"))
    assert compose(outbox, at(200)) == []


def test_the_pace_of_a_run_survives_a_restart():
    before = Outbox(["slack"])
    before.add_event(make_event(1, decided_ns=at(0)))
    (message,) = compose(before, at(GROUP_WAIT_S))
    outbox = Outbox(["slack"])
    outbox.add_message(message)
    outbox.add_event(make_event(2, decided_ns=at(20)))
    assert compose(outbox, at(60)) == []
    assert len(compose(outbox, at(GROUP_WAIT_S + Pace().group_interval_s))) == 1


@pytest.mark.parametrize("digest_s", [0.0, 5.0, 3_600.0])
@pytest.mark.parametrize("severity", ["critical", "warning"])
def test_what_still_gathered_at_the_limit_of_a_days_news_is_due_when_it_would_be_told(
    severity: str, digest_s: float
):
    """It was held for due when it was decided, and dropped by a restart within its wait."""
    outbox = Outbox(["slack"], Pace(digest_s=digest_s))
    event = make_event(decided_ns=at(0), severity=severity)
    due_ns = outbox.due_alone_ns(event)
    outbox.add_event(event)
    assert compose(outbox, due_ns - 1) == []
    assert [message.event_ids for message in compose(outbox, due_ns)] == [("event-1",)]


def test_only_what_is_to_be_told_is_told_and_once():
    outbox = Outbox(["slack"])
    outbox.add_event(make_event(1, notify=False))
    outbox.add_event(make_event(2))
    compose(outbox, wait_s(100))
    outbox.add_event(make_event(2))
    assert compose(outbox, wait_s(200)) == []


def test_a_retry_waits_longer_each_time_or_as_the_channel_asks():
    outbox = Outbox(["slack"])
    outbox.add_event(make_event())
    (message,) = compose(outbox, at(100))
    waits = [
        (outbox.plan_retry(Due(message, "slack", attempt), None, at(100)) or 0) - at(100)
        for attempt in (1, 2, 3, 12, 1_000)
    ]
    assert [wait // S for wait in waits] == [1, 2, 4, 600, 600]
    assert outbox.plan_retry(Due(message, "slack", 1), 30.0, at(100)) == at(130)
    late_ns = at(100 + GIVE_UP_AFTER_S)
    assert outbox.plan_retry(Due(message, "slack", 1), None, late_ns) is None


def test_what_comes_later_is_not_read_before():
    outbox = Outbox(["slack"])
    for number, run_id in ((1, "a"), (2, "b")):
        outbox.add_event(make_event(number, run_id=run_id))
        compose(outbox, at(100 * number))
    (due,) = outbox.list_due(at(300))
    assert due.message.event_ids == ("event-1",)
    outbox.add_delivery(answer(due, "retry", at(300), at(400)))
    assert outbox.list_due(at(310)) == []
    (due,) = outbox.list_due(at(400))
    assert due.attempt == 2
    outbox.add_delivery(answer(due, "delivered", at(400)))
    assert outbox.list_due(at(400.5)) == [], "about one message a second"
    (due,) = outbox.list_due(at(402))
    assert due.message.event_ids == ("event-2",)


def test_one_message_that_is_never_taken_does_not_hold_the_others_for_ever():
    outbox = Outbox(["slack"])
    for number, run_id in ((1, "a"), (2, "b")):
        outbox.add_event(make_event(number, run_id=run_id))
        compose(outbox, at(100 * number))
    for attempt in range(5):
        (due,) = outbox.list_due(at(300 + 10 * attempt))
        outbox.add_delivery(answer(due, "retry", at(300 + 10 * attempt), at(305 + 10 * attempt)))
    (due,) = outbox.list_due(at(343))
    assert due.message.event_ids == ("event-2",)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["delivered", "retry", "failed"])),
        max_size=30,
    ),
    st.integers(0, 30),
)
def test_after_a_restart_it_goes_on_where_it_was(
    steps: list[tuple[str, DeliveryOutcome]], cut: int
):
    outbox = Outbox(["a", "b"])
    messages: list[AlertMessage] = []
    deliveries: list[Delivery] = []
    now_s = 100.0
    for index, (channel, outcome) in enumerate(steps):
        if index % 3 == 0:
            outbox.add_event(make_event(index, decided_ns=at(now_s)))
            now_s += GROUP_WAIT_S
            messages += compose(outbox, at(now_s))
        now_s += 2.0
        for due in outbox.list_due(at(now_s)):
            if due.channel == channel:
                next_ns = at(now_s + 3) if outcome == "retry" else None
                delivery = answer(due, outcome, at(now_s), next_ns)
                deliveries.append(delivery)
                outbox.add_delivery(delivery)
    again = Outbox(["a", "b"])
    for message in messages:
        again.add_message(message)
    for delivery in deliveries:
        again.add_delivery(delivery)
    for later_s in (now_s, now_s + 10, now_s + 1_000):
        assert again.list_due(at(later_s)) == outbox.list_due(at(later_s))
    assert again.records == outbox.records
    delivered = [d.message_id for d in deliveries if d.outcome == "delivered" and d.channel == "a"]
    assert len(delivered) == len(set(delivered)), "what was confirmed is not sent again"


def test_a_channel_that_asks_for_time_is_left_alone_by_all_messages():
    outbox = Outbox(["slack"])
    for number, run_id in ((1, "a"), (2, "b")):
        outbox.add_event(make_event(number, run_id=run_id))
        compose(outbox, at(100 * number))
    for attempt in range(1, 7):
        now_ns = at(300 + 10 * attempt)
        (due,) = outbox.list_due(now_ns)
        is_last = attempt == 6
        next_ns = outbox.plan_retry(due, 3_600.0 if is_last else None, now_ns)
        # After five tries another message may overtake it.
        outbox.add_delivery(answer(due, "retry", now_ns, next_ns))
    assert outbox.list_due(at(3_900)) == []
    assert outbox.next_due_ns(at(400)) == at(360 + 3_600)
    assert outbox.list_due(at(360 + 3_600)) != []


def test_nothing_is_due_while_what_comes_first_waits():
    outbox = Outbox(["slack"])
    for number, run_id in ((1, "a"), (2, "b")):
        outbox.add_event(make_event(number, run_id=run_id))
        compose(outbox, at(100 * number))
    (due,) = outbox.list_due(at(300))
    outbox.add_delivery(answer(due, "retry", at(300), at(900)))
    assert outbox.next_due_ns(at(310)) == at(900)


def test_a_digest_holds_what_is_not_critical_of_all_runs():
    outbox = Outbox(["slack"], Pace(digest_s=3_600.0))
    outbox.add_event(make_event(1, severity="warning", run_id="a"))
    outbox.add_event(make_event(2, severity="info", run_id="b"))
    outbox.add_event(make_event(3, severity="warning", run_id="c"))
    outbox.add_event(make_event(4, severity="critical", run_id="c"))
    (told,) = compose(outbox, at(100))
    assert told.event_ids == ("event-3", "event-4"), "what is critical takes its run along"
    assert compose(outbox, at(3_000)) == []
    (digest,) = compose(outbox, at(3_700))
    assert (digest.run_id, digest.event_ids) == (DIGEST, ("event-1", "event-2"))


def test_a_clock_that_went_back_keeps_nobody_from_being_told():
    outbox = Outbox(["slack"])
    for number, run_id in ((1, "a"), (2, "b")):
        outbox.add_event(make_event(number, run_id=run_id, decided_ns=at(7_200)))
    outbox.heed_clock(at(7_300))
    compose(outbox, at(7_300))
    (due,) = outbox.list_due(at(7_300))
    next_ns = outbox.plan_retry(due, 30.0, at(7_300))
    outbox.add_delivery(answer(due, "retry", at(7_300), next_ns))
    # It was two hours ahead. What is decided now still comes after what was decided before.
    outbox.heed_clock(at(100))
    assert outbox.list_due(at(129)) == []
    assert [due.attempt for due in outbox.list_due(at(131))] == [2]
    outbox.add_event(make_event(3, run_id="c", decided_ns=at(7_301)))
    outbox.heed_clock(at(131))
    assert [each.event_ids for each in compose(outbox, at(142))] == [("event-3",)]


def test_a_clock_that_is_right_again_after_a_restart_keeps_nobody_from_being_told():
    before = Outbox(["slack"])
    before.add_event(make_event(1, decided_ns=at(7_200)))
    (message,) = compose(before, at(7_300))
    (due,) = before.list_due(at(7_300))
    outbox = Outbox(["slack"])
    outbox.add_message(message)
    outbox.add_delivery(answer(due, "retry", at(7_300), at(7_301)))
    outbox.heed_clock(at(100))
    assert [due.attempt for due in outbox.list_due(at(102))] == [2]
