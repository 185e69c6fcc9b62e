from collections.abc import Sequence

from longpole_server.alerts.book import AlertBook
from longpole_server.alerts.evaluation import evaluate
from longpole_server.alerts.history import GpuMinute, StepPoint
from longpole_server.alerts.rule import Judgement, Rule
from longpole_server.model.alert import AlertEvent
from support.alert_histories import (
    ScriptedDetector,
    history_at,
    history_of,
    judgement_of,
    kinds,
    make_counts,
    make_gpu,
    make_host,
    make_point,
    make_rule,
    make_run,
)


class FiringOn(ScriptedDetector):
    """Fires on the entities that it is told of, is over on all others."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def judge(self, history: object) -> Judgement:
        entity = getattr(history, "entity", None)
        return judgement_of(2.0 if getattr(entity, "id", "") in self.names else 0.0)


def step_of(number: int, replicas: Sequence[str]) -> StepPoint:
    return make_point(number, samples=make_counts(replicas))


def play(
    rules: Sequence[Rule], replicas: Sequence[Sequence[str]], book: AlertBook
) -> list[AlertEvent]:
    """Close a step for each list of replicas, ten seconds a step."""
    points = [step_of(number, names) for number, names in enumerate(replicas, 1)]
    return [
        event
        for count in range(1, len(points) + 1)
        for event in evaluate(rules, history_of(points[:count]), book, "step").events
    ]


def judge_time(
    seconds: float, rules: Sequence[Rule], book: AlertBook, gpus: Sequence[GpuMinute], **run: str
) -> list[AlertEvent]:
    history = history_at(seconds, make_run(**run), gpus=gpus, hosts=[make_host(seconds)])
    return evaluate(rules, history, book, "time").events


def test_an_alert_on_a_replica_that_left_is_over_in_the_end():
    rule = make_rule(entity_kind="replica", detector=FiringOn("b"))
    book = AlertBook()
    events = play([rule], [["a", "b"]] * 3 + [["a"]] * 45, book)
    assert kinds(events)[0] == "firing"
    last = events[-1]
    assert (last.kind, last.entity_id, last.notify) == ("resolved", "b", True)
    assert last.comment == "gone: the replica is no part of the run any more"
    assert not book.list_open()


def test_the_only_replica_may_leave_too():
    book = AlertBook()
    rule = make_rule(entity_kind="replica", detector=FiringOn("a"))
    play([rule], [["a"]] * 3 + [[]] * 45, book)
    assert not book.list_open()


def test_what_is_missed_for_a_moment_stays():
    book = AlertBook()
    rule = make_rule(entity_kind="gpu", trigger="time", detector=FiringOn("GPU-1"))
    both, one = [make_gpu(0), make_gpu(1)], [make_gpu(0)]
    judge_time(100, [rule], book, both)
    assert not judge_time(110, [rule], book, one)
    assert kinds(judge_time(120, [rule], book, both)) == ["seen"]
    assert not judge_time(230, [rule], book, one)
    assert kinds(judge_time(241, [rule], book, one)) == ["resolved"]


def test_where_no_gpu_is_known_none_has_left():
    book = AlertBook()
    rule = make_rule(entity_kind="gpu", trigger="time", detector=FiringOn("GPU-1"))
    judge_time(100, [rule], book, [make_gpu(0), make_gpu(1)])
    assert not judge_time(900, [rule], book, [])


def test_a_run_that_is_over_ends_its_alerts_itself():
    book = AlertBook()
    rule = make_rule(entity_kind="gpu", trigger="time", detector=FiringOn("GPU-1"))
    judge_time(100, [rule], book, [make_gpu(0), make_gpu(1)])
    assert not judge_time(900, [rule], book, [make_gpu(0)], state="finished")


def test_a_rule_stands_back_for_the_one_that_says_that_the_replica_is_gone():
    leak = make_rule(
        rule_id="leak", entity_kind="replica", detector=FiringOn("a", "b"), yields_to=("gone",)
    )
    gone = make_rule(rule_id="gone", entity_kind="replica", detector=FiringOn("b"))
    book = AlertBook()
    events = play([leak, gone], [["a", "b"]] * 2, book)
    told = [(event.rule, event.entity_id, event.kind) for event in events if event.kind != "seen"]
    assert told == [
        ("leak", "a", "firing"),
        ("leak", "b", "firing"),
        ("gone", "b", "firing"),
        ("leak", "b", "resolved"),
    ]
    assert [event.comment for event in events if event.kind == "resolved"] == [
        "gone: gone tells of it"
    ]


def test_a_gpu_of_a_silent_node_is_left_to_the_node():
    throttled = make_rule(
        rule_id="throttled",
        entity_kind="gpu",
        trigger="time",
        detector=FiringOn("GPU-0", "GPU-1"),
        yields_to=("silent",),
    )
    silent = make_rule(
        rule_id="silent", entity_kind="host", trigger="time", detector=FiringOn("node-1")
    )
    gpus, book = [make_gpu(0), make_gpu(1, host="node-1")], AlertBook()
    hosts = [make_host(100, "node-0"), make_host(100, "node-1")]
    for seconds in (100, 110):
        history = history_at(seconds, gpus=gpus, hosts=hosts)
        found = evaluate([throttled, silent], history, book, "time")
    assert {(alert.rule, alert.entity.id) for alert in book.list_open()} == {
        ("throttled", "GPU-0"),
        ("silent", "node-1"),
    }
    (seen,) = [each for _, each in found.inputs if each.entity.id == "GPU-1"]
    assert (seen.state, seen.quiet_because) == (
        "not_judgeable",
        "not judgeable: silent tells of it",
    )
