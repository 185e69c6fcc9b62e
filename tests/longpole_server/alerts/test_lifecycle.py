from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.events import Subject
from longpole_server.alerts.history import Moment
from longpole_server.alerts.lifecycle import acknowledge, advance, end_alert
from longpole_server.alerts.rule import Rule
from longpole_server.model.alert import Alert, AlertEvent
from support.alert_histories import RUN, at, judgement_of, kinds, make_rule, make_run

SUBJECT = Subject(RUN, make_run())


def drive(
    rule: Rule, values: Sequence[float | None], book: AlertBook | None = None, silence_id: str = ""
) -> tuple[AlertBook, list[AlertEvent]]:
    """Judge one value a step, ten seconds a step."""
    book = book or AlertBook()
    fingerprint = SUBJECT.fingerprint(rule)
    events: list[AlertEvent] = []
    for step, value in enumerate(values, 1):
        over_ns = book.resolved_ns(fingerprint)
        event = advance(
            rule,
            SUBJECT,
            book.find(fingerprint),
            judgement_of(value),
            Moment(at(10 * step), at(10 * step + 1), step),
            silence_id=silence_id,
            cooling_until_ns=0 if over_ns is None else over_ns + round(rule.cooldown_s * 1e9),
        )
        if event is not None:
            events.append(event)
            book.apply(event)
    return book, events


def only(book: AlertBook) -> Alert:
    (alert,) = book.list_all()
    return alert


def test_fires_at_once_without_for_and_resolves_at_the_clear_threshold() -> None:
    book, events = drive(make_rule(), [0, 2, 0.5, 3, 0])
    assert kinds(events) == ["firing", "seen", "resolved"]
    alert = only(book)
    assert (alert.state, alert.count, alert.first_step, alert.last_step) == ("resolved", 2, 2, 4)
    assert alert.summary == "value 3 over 1 on team/run"
    assert alert.resolved_ns == at(50)


def test_between_the_thresholds_nothing_changes() -> None:
    _, events = drive(make_rule(), [2, 0.5, 0.5, 0.5])
    assert kinds(events) == ["firing"]


def test_waits_for_the_number_of_steps_and_drops_what_does_not_last() -> None:
    _, events = drive(make_rule(for_steps=3), [2, 2, 0, 2, 2, 2])
    assert kinds(events) == ["pending", "pending", "dropped", "pending", "pending", "firing"]
    assert [event.count for event in events if event.kind != "dropped"] == [1, 2, 1, 2, 1]
    assert [event.notify for event in events] == [False] * 5 + [True]


def test_steps_that_say_nothing_do_not_count():
    _, events = drive(make_rule(for_steps=3), [2, None, None, None, 2, None, 2])
    assert kinds(events) == ["pending", "pending", "firing"]
    assert [event.step for event in events] == [1, 5, 7]


def test_a_step_that_is_judged_again_counts_once_while_it_waits():
    book, _ = drive(make_rule(for_steps=2), [2])
    again = advance(
        make_rule(for_steps=2), SUBJECT, only(book), judgement_of(2), Moment(at(10), at(99), 1)
    )
    assert again is None


def test_waits_for_the_seconds() -> None:
    _, events = drive(make_rule(for_s=25.0), [2, 2, 2, 2])
    assert kinds(events) == ["pending", "firing"]
    assert events[1].step == 4


def test_what_cannot_be_judged_changes_nothing() -> None:
    _, events = drive(make_rule(), [2, None, None, 0])
    assert kinds(events) == ["firing", "resolved"]


def test_within_the_cooldown_it_waits_and_fires_after_it() -> None:
    _, events = drive(make_rule(cooldown_s=30.0), [2, 0, 2, 2, 2, 2])
    assert kinds(events) == ["firing", "resolved", "pending", "firing", "seen"]
    assert events[3].ts_ns == at(50)


def test_repeats_are_counted_and_told_after_the_interval() -> None:
    _, events = drive(make_rule(repeat_s=30.0), [2] * 8)
    assert kinds(events) == [
        "firing",
        "seen",
        "seen",
        "repeated",
        "seen",
        "seen",
        "repeated",
        "seen",
    ]
    assert [event.count for event in events] == list(range(1, 9))
    assert [event.notify for event in events if event.kind == "seen"] == [False] * 5


def test_a_repeat_between_the_thresholds_does_not_say_unknown() -> None:
    rule = make_rule(repeat_s=30.0, summary="the {pool} is at {value}")
    raised = replace(judgement_of(2), words={"pool": "KV pool"})
    first = advance(rule, SUBJECT, None, raised, Moment(at(10), at(11), 1))
    assert first is not None
    book = AlertBook([first])
    again = advance(rule, SUBJECT, only(book), judgement_of(0.5), Moment(at(50), at(51), 5))
    assert again is not None
    assert (again.kind, again.summary, again.value) == ("repeated", "the KV pool is at 2", 0.5)


def test_acknowledged_alerts_are_not_repeated() -> None:
    book, _ = drive(make_rule(repeat_s=15.0), [2])
    book.apply(acknowledge(only(book), "ada", "on it", at(11)))
    _, events = drive(make_rule(repeat_s=15.0), [2, 2, 2, 2], book)
    assert "repeated" not in kinds(events)
    acknowledged = only(book).acknowledged
    assert acknowledged is not None
    assert (acknowledged.author, acknowledged.comment) == ("ada", "on it")


def test_a_silenced_alert_is_told_when_the_silence_is_over() -> None:
    book, events = drive(make_rule(), [2, 2], silence_id="s1")
    assert [event.notify for event in events] == [False, False]
    _, events = drive(make_rule(), [None, None, 2, 2], book)
    assert (events[0].kind, events[0].notify) == ("repeated", True)


def test_what_was_never_told_is_not_told_to_be_over() -> None:
    book, _ = drive(make_rule(), [2], silence_id="s1")
    event = end_alert(only(book), Moment(at(20), at(20)), "the run finished")
    assert (event.kind, event.notify, event.comment) == ("resolved", False, "the run finished")


def test_older_data_changes_nothing() -> None:
    book, _ = drive(make_rule(), [0, 0, 2, 0])
    late = advance(make_rule(), SUBJECT, only(book), judgement_of(5), Moment(at(20), at(99), 2))
    again = advance(make_rule(), SUBJECT, only(book), judgement_of(5), Moment(at(40), at(99), 4))
    assert late is None
    assert again is None


def test_judging_a_step_again_counts_once() -> None:
    book, _ = drive(make_rule(), [2, 2])
    again = advance(make_rule(), SUBJECT, only(book), judgement_of(2), Moment(at(20), at(99), 2))
    assert again is None


rules = st.builds(
    make_rule,
    for_steps=st.integers(1, 3),
    for_s=st.sampled_from([0.0, 15.0]),
    cooldown_s=st.sampled_from([0.0, 25.0]),
    repeat_s=st.sampled_from([20.0, 1e6]),
)
scripts = st.lists(st.sampled_from([None, -1.0, 0.5, 2.0]), max_size=40)


@given(rules, scripts)
def test_the_events_rebuild_the_alerts(rule: Rule, script: list[float | None]) -> None:
    book, events = drive(rule, script)
    rebuilt = AlertBook(events)
    assert rebuilt.list_all() == book.list_all()
    assert rebuilt.list_open() == book.list_open()


@given(rules, scripts, st.randoms(use_true_random=False))
def test_seen_events_between_others_may_be_left_out(
    rule: Rule, script: list[float | None], random: "object"
) -> None:
    book, events = drive(rule, script)
    kept = [
        event
        for index, event in enumerate(events)
        # The last word on an alert is kept.
        if event.kind != "seen" or index + 1 == len(events) or events[index + 1].kind == "resolved"
    ]
    assert AlertBook(kept).list_all() == book.list_all()


@given(rules, scripts)
def test_never_twice_firing_without_an_end_between(rule: Rule, script: list[float | None]) -> None:
    _, events = drive(rule, script)
    allowed = {
        None: {"pending", "firing"},
        "pending": {"pending", "dropped", "firing"},
        "firing": {"seen", "repeated", "resolved"},
        "seen": {"seen", "repeated", "resolved"},
        "repeated": {"seen", "repeated", "resolved"},
        "dropped": {"pending", "firing"},
        "resolved": {"pending", "firing"},
    }
    before = None
    for event in events:
        assert event.kind in allowed[before]
        before = event.kind
    ids = [event.event_id for event in events]
    assert len(ids) == len(set(ids))


@given(rules, scripts, st.integers(0, 40))
def test_a_restart_in_between_decides_the_same(
    rule: Rule, script: list[float | None], cut: int
) -> None:
    _, whole = drive(rule, script)
    _, first = drive(rule, script[:cut])
    book = AlertBook(first)
    # What was judged before is judged again, as after a crash.
    fingerprint = SUBJECT.fingerprint(rule)
    events = list(first)
    for step, value in enumerate(script, 1):
        over_ns = book.resolved_ns(fingerprint)
        event = advance(
            rule,
            SUBJECT,
            book.find(fingerprint),
            judgement_of(value),
            Moment(at(10 * step), at(10 * step + 1), step),
            cooling_until_ns=0 if over_ns is None else over_ns + round(rule.cooldown_s * 1e9),
        )
        if event is not None:
            book.apply(event)
            events.append(event)
    told = {event.event_id for event in whole if event.notify}
    assert told <= {event.event_id for event in events}


def test_what_goes_by_time_goes_on_when_the_clock_went_back() -> None:
    rule, book = make_rule(trigger="time", for_s=25.0), AlertBook()
    kinds_seen: list[str] = []

    def judge(value: float, now_s: float, decided_s: float) -> None:
        event = advance(
            rule,
            SUBJECT,
            book.find(SUBJECT.fingerprint(rule)),
            judgement_of(value),
            Moment(at(now_s), at(decided_s)),
        )
        if event is not None:
            kinds_seen.append(event.kind)
            book.apply(event)

    judge(2, 4_000, 4_000)
    # An hour back: what was noticed then has not lasted since; it is noticed anew.
    for now_s in (400, 410, 440):
        judge(2, now_s, 4_001)
    assert kinds_seen == ["pending", "dropped", "pending", "firing"]
    judge(2, 8_000, 8_000)
    judge(0, 450, 8_001)
    assert kinds_seen[-1] == "resolved", "nobody waits for an hour to hear that it is over"
