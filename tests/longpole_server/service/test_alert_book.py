"""The stored book: what a failing store, a restart and a long alert do to it."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from longpole_server.alerts.events import copy_event
from longpole_server.alerts.history import History, Moment
from longpole_server.alerts.rule import Judgement
from longpole_server.alerts.user_rules import read_user_rule
from longpole_server.errors import StoreError
from longpole_server.model.alert import AlertEvent, Silence
from longpole_server.service.alert_book import AlertStore, StoredBook
from support.alert_histories import (
    ScriptedDetector,
    history_of,
    make_rule,
    make_run,
    points_of,
)
from support.server_runs import S
from support.server_service import ServiceBench


class FailingWriter:
    """Refuses events until it is mended."""

    def __init__(self, store: AlertStore) -> None:
        self._writer = store.writer
        self.is_broken = True

    def write_events(self, events: Sequence[AlertEvent]) -> None:
        if self.is_broken:
            raise StoreError("the disk is full")
        self._writer.write_events(events)


def script_history(run_id: str, values: Sequence[float | None]):
    history = history_of(points_of("script", values), make_run(facts={}))
    assert history.run is not None
    facts = replace(history.run.facts, run_id=run_id)
    return replace(history, run=replace(history.run, facts=facts))


def open_book(bench: ServiceBench, store: AlertStore | None = None) -> StoredBook:
    return StoredBook(store or bench.alert_store, bench.clock.now_ns, [make_rule()])


def kinds_of(bench: ServiceBench, run_id: str) -> list[str]:
    events = bench.alert_store.reader.list_events_since(0)
    return [event.kind for event in events if event.run_id == run_id]


def test_what_the_store_refuses_is_written_later(bench: ServiceBench, run_id: str):
    writer = FailingWriter(bench.alert_store)
    book = open_book(bench, replace(bench.alert_store, writer=writer))  # type: ignore[arg-type]
    heard: list[AlertEvent] = []
    book.add_listener(heard.extend)
    book.evaluate(script_history(run_id, [2.0]), "step")
    assert book.count_firing(run_id) == 1
    assert (book.stats.num_unwritten, book.stats.num_write_failures) == (1, 1)
    assert heard == [], "nobody is told at once of what could be forgotten"
    writer.is_broken = False
    assert book.flush()
    assert [event.kind for event in heard] == ["firing"]
    assert kinds_of(bench, run_id) == ["firing"]


def test_who_reads_does_not_wait_for_who_judges(bench: ServiceBench, run_id: str):
    entered, released = threading.Event(), threading.Event()

    class Slow(ScriptedDetector):
        def judge(self, history: History) -> Judgement:
            entered.set()
            released.wait(60.0)
            return super().judge(history)

    book = StoredBook(bench.alert_store, bench.clock.now_ns, [make_rule(detector=Slow())])
    history = script_history(run_id, [2.0])
    judging = threading.Thread(target=book.evaluate, args=(history, "step"))
    judging.start()
    try:
        assert entered.wait(60.0)
        assert (book.count_firing(run_id), book.has_open(run_id), book.stats.num_events) == (
            0,
            False,
            0,
        )
        assert all(alert.run_id != run_id for alert in book.list_alerts())
    finally:
        released.set()
        judging.join()
    assert book.count_firing(run_id) == 1


def test_a_long_alert_is_written_down_once_a_minute(bench: ServiceBench, run_id: str):
    book = open_book(bench)
    for step in range(1, 31):
        bench.clock.seconds += 10.0
        book.evaluate(script_history(run_id, [2.0] * step), "step")
    book.flush()
    assert kinds_of(bench, run_id) == ["firing", "seen"]
    assert 5 <= book.stats.num_events <= 8
    (alert,) = [alert for alert in book.list_alerts() if alert.run_id == run_id]
    (again,) = [alert for alert in open_book(bench).list_alerts() if alert.run_id == run_id]
    assert alert.count == 30
    assert again == alert


def test_times_of_decisions_only_grow(bench: ServiceBench):
    book = open_book(bench)
    first = book.next_decided_ns()
    bench.clock.seconds -= 5_000.0
    assert book.next_decided_ns() > first


def test_a_deleted_rule_ends_its_alerts_and_stays_deleted(bench: ServiceBench, run_id: str):
    book = open_book(bench)
    rule = read_user_rule({"metric": "script", "threshold": 1.0, "rule_id": "user.once"})
    book.put_rule(rule.rule_id, rule)
    assert [each.rule_id for each in open_book(bench).user_rules] == ["user.once"]
    history = script_history(run_id, [2.0] * 8)
    book.evaluate(history, "step")
    assert book.count_firing(run_id) == 2
    book.put_rule(rule.rule_id, None)
    assert book.count_firing(run_id) == 1
    assert open_book(bench).user_rules == ()
    ended = [alert for alert in book.list_alerts() if alert.rule == "user.once"]
    assert [alert.state for alert in ended] == ["resolved"]


@pytest.mark.parametrize("cut", range(0, 9, 2))
def test_a_restart_between_steps_tells_nobody_twice(bench: ServiceBench, run_id: str, cut: int):
    values = [0.0, 2.0, 2.0, 0.0, 2.0, 0.5, 0.0, 2.0, 2.0]
    heard: list[AlertEvent] = []
    book = open_book(bench)
    book.add_listener(heard.extend)
    for step in range(1, len(values) + 1):
        if step == cut:
            # Without a flush, as after a kill; the last steps are judged again.
            book = open_book(bench)
            book.add_listener(heard.extend)
            for again in range(1, step):
                book.evaluate(script_history(run_id, values[:again]), "step")
        book.evaluate(script_history(run_id, values[:step]), "step")
    told = [event.event_id for event in heard if event.notify]
    assert len(told) == len(set(told)) == 5


def test_what_a_rule_of_time_saw_is_known_after_a_restart(bench: ServiceBench, run_id: str):
    rules = [make_rule(trigger="time"), make_rule(rule_id="of.steps")]
    # Later than anything that others decided in the same store.
    bench.clock.seconds += 86_400.0
    book = StoredBook(bench.alert_store, bench.clock.now_ns, rules)
    begin_s = bench.clock.seconds
    for minute in range(5):
        bench.clock.seconds = begin_s + 70.0 * minute
        history = script_history(run_id, [2.0 + minute])
        now_ns = bench.clock.now_ns()
        at_minute = replace(history, moment=Moment(now_ns, book.next_decided_ns()))
        book.evaluate(at_minute, "time")
        book.evaluate(history, "step")
    (alert,) = [
        each for each in book.list_alerts() if (each.rule, each.run_id) == ("test.rule", run_id)
    ]
    event = copy_event(alert, "seen", alert.updated_ns, alert.updated_ns)
    assert [value for _, value in book.list_past(event)] == [2.0, 3.0, 4.0, 5.0, 6.0]
    book.flush()
    again = StoredBook(bench.alert_store, bench.clock.now_ns, rules)
    assert again.list_past(event) == book.list_past(event)
    assert not again.list_past(replace(event, rule="of.steps"))
    bench.clock.seconds += 3_600.0
    late = StoredBook(bench.alert_store, bench.clock.now_ns, rules)
    assert not late.list_past(event)


def test_a_store_that_refuses_for_the_night_does_not_keep_people_from_being_told(
    bench: ServiceBench, run_id: str
):
    writer = FailingWriter(bench.alert_store)
    book = open_book(bench, replace(bench.alert_store, writer=writer))  # type: ignore[arg-type]
    heard: list[AlertEvent] = []
    book.add_listener(heard.extend)
    book.evaluate(script_history(run_id, [2.0]), "step")
    bench.clock.seconds += 61.0
    book.evaluate(script_history(run_id, [2.0, 2.0]), "step")
    book.evaluate(script_history(run_id, [2.0, 2.0, 0.0]), "step")
    assert [event.kind for event in heard if event.notify] == ["firing", "resolved"]
    writer.is_broken = False
    assert book.flush()
    assert [event.kind for event in heard if event.notify] == ["firing", "resolved"], "once"
    assert [kind for kind in kinds_of(bench, run_id) if kind != "seen"] == ["firing", "resolved"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": "others/*"}, "its rule is for other runs now"),
        ({"metric": "else"}, "its rule asks for something else now"),
        ({"comparison": "below", "clear_threshold": None}, "its rule asks for something else now"),
        ({"threshold": 0.5, "severity": "critical"}, None),
    ],
)
def test_an_edited_rule_leaves_no_alert_that_nobody_could_end(
    bench: ServiceBench, run_id: str, change: dict[str, object], why: str | None
):
    book = open_book(bench)
    document = {"metric": "script", "threshold": 1.0, "rule_id": "user.edited"}
    book.put_rule("user.edited", read_user_rule(document))
    book.evaluate(script_history(run_id, [2.0] * 8), "step")
    book.put_rule("user.edited", read_user_rule({**document, **change}))
    (alert,) = [
        each for each in book.list_alerts() if (each.rule, each.run_id) == ("user.edited", run_id)
    ]
    assert alert.state == ("firing" if why is None else "resolved")
    events = bench.alert_store.reader.list_events_since(0)
    comments = [event.comment for event in events if event.alert_id == alert.alert_id]
    assert comments[-1] == (why or "")
    book.put_rule("user.edited", None)


def test_alerts_of_a_run_that_is_not_in_the_store_any_more_end(bench: ServiceBench, run_id: str):
    book = open_book(bench)
    book.evaluate(script_history(run_id, [2.0]), "step")
    book.end_unknown_runs({alert.run_id or "" for alert in book.list_alerts()})
    assert book.count_firing(run_id) == 1
    book.end_unknown_runs({alert.run_id or "" for alert in book.list_alerts()} - {run_id})
    assert book.count_firing(run_id) == 0


def test_what_ends_under_a_silence_wakes_nobody(bench: ServiceBench, run_id: str):
    book = open_book(bench)
    heard: list[AlertEvent] = []
    book.add_listener(heard.extend)
    history = script_history(run_id, [2.0])
    book.evaluate(history, "step")
    now_ns = bench.clock.now_ns()
    silence = Silence("s-" + run_id, None, run_id, None, "ada", "", now_ns, now_ns + 3_600 * S)
    book.put_silence(silence)
    book.end_run(history, "the run is finished")
    assert [(event.kind, event.notify) for event in heard] == [
        ("firing", True),
        ("resolved", False),
    ]
    assert heard[-1].silence_id == silence.silence_id


def test_a_silence_holds_although_the_clock_went_back(bench: ServiceBench, run_id: str):
    book = open_book(bench)
    book.next_decided_ns()
    bench.clock.seconds -= 40_000.0
    now_ns = bench.clock.now_ns()
    silence = Silence("b-" + run_id, None, run_id, None, "ada", "", now_ns, now_ns + 3_600 * S)
    book.put_silence(silence)
    book.evaluate(script_history(run_id, [2.0]), "step")
    (alert,) = [each for each in book.list_alerts() if each.run_id == run_id]
    assert (alert.state, alert.silence_id) == ("firing", silence.silence_id)
    bench.clock.seconds += 40_000.0
