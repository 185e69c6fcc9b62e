from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.evaluation import end_alerts_of, evaluate
from longpole_server.alerts.history import History, Moment
from longpole_server.alerts.rule import Judgement
from longpole_server.model.alert import Silence
from longpole_server.model.diagnosis import Entity
from support.alert_histories import (
    at,
    history_at,
    history_of,
    kinds,
    make_counts,
    make_own,
    make_point,
    make_rule,
    make_run,
    points_of,
    with_validation,
)


class Broken:
    fire: float | None = None
    clear: float | None = None
    unit = "1"
    reads = ("nothing",)

    def judge(self, history: History) -> Judgement:
        raise ZeroDivisionError("oh")


def test_each_entity_has_its_own_alert() -> None:
    points = [make_point(1, {"script": 2}, samples=make_counts(["a", "b"]))]
    book = AlertBook()
    evaluation = evaluate([make_rule(entity_kind="replica")], history_of(points), book, "step")
    assert kinds(evaluation.events) == ["firing", "firing"]
    assert {alert.entity for alert in book.list_open()} == {
        Entity("replica", "a"),
        Entity("replica", "b"),
    }


def test_a_rule_without_entities_says_so() -> None:
    evaluation = evaluate(
        [make_rule(entity_kind="gpu")], history_of([make_point(1)]), AlertBook(), "step"
    )
    ((rule_id, seen),) = evaluation.inputs
    assert rule_id == "test.rule"
    assert seen.state == "not_judgeable"
    assert seen.quiet_because == "not judgeable: no gpu is known"


def test_rules_of_another_trigger_are_left_out() -> None:
    rule = make_rule(trigger="time")
    assert not evaluate([rule], history_of([make_point(1)]), AlertBook(), "step").inputs


def test_the_server_is_judged_without_a_run() -> None:
    rule = make_rule(entity_kind="server", trigger="time")
    with_run = history_at(1.0, own=make_own())
    without = History(Moment(at(1), at(1)), own=make_own())
    assert not evaluate([rule], with_run, AlertBook(), "time").inputs
    assert len(evaluate([rule], without, AlertBook(), "time").inputs) == 1


def test_a_broken_detector_stops_no_other() -> None:
    points = points_of("script", [2.0])
    evaluation = evaluate(
        [make_rule(rule_id="broken", detector=Broken()), make_rule()],
        history_of(points),
        AlertBook(),
        "step",
    )
    assert evaluation.failures == ["broken: ZeroDivisionError: oh"]
    assert kinds(evaluation.events) == ["firing"]
    assert evaluation.inputs[0][1].state == "not_judgeable"


def test_trends_are_not_judged_in_warm_up_and_after_a_resume() -> None:
    points = points_of("script", [2.0] * 5)
    for run in (make_run(), make_run(attempt=2)):
        trend = evaluate([make_rule(kind="trend")], history_of(points, run), AlertBook(), "step")
        assert not trend.events
        assert "not judged" in (trend.inputs[0][1].quiet_because or "")
    fault = evaluate([make_rule(kind="fault")], history_of(points), AlertBook(), "step")
    assert kinds(fault.events) == ["firing"]


def test_trends_are_not_judged_in_a_step_with_a_validation() -> None:
    points = points_of("script", [0.0] * 9 + [2.0])
    points[-1] = with_validation(points[-1])
    rule = make_rule(kind="trend")
    evaluation = evaluate([rule], history_of(points), AlertBook(), "step")
    assert not evaluation.events
    assert evaluation.inputs[0][1].quiet_because == "not judged: the step holds testing"
    every = [with_validation(point) for point in points]
    assert kinds(evaluate([rule], history_of(every), AlertBook(), "step").events) == ["firing"]


def test_a_silence_keeps_it_from_people_only() -> None:
    silence = Silence("s1", "test", None, None, "ada", "", 0, at(1_000))
    book = AlertBook()
    evaluation = evaluate(
        [make_rule()], history_of(points_of("script", [2.0])), book, "step", [silence]
    )
    (event,) = evaluation.events
    assert (event.kind, event.notify, event.silence_id) == ("firing", False, "s1")
    assert book.count_firing("team/run") == 1


def test_the_end_of_a_run_ends_its_alerts() -> None:
    book = AlertBook()
    history = history_of(points_of("script", [2.0]))
    evaluate([make_rule(), make_rule(rule_id="trainer.gone")], history, book, "step")
    events = end_alerts_of(book, history, "the run is finished", frozenset({"trainer.gone"}))
    assert [(event.rule, event.kind) for event in events] == [("test.rule", "resolved")]
    assert [alert.rule for alert in book.list_open()] == ["trainer.gone"]
