import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from longpole.conventions.attributes import IMPORT_SERVICE
from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.history import History, RunContext, StepPoint
from longpole_server.alerts.rule import Judgement, Rule
from longpole_server.errors import StoreError
from longpole_server.model.alert import Alert
from longpole_server.model.records import HostSample, Records
from longpole_server.model.run import RunSummary
from longpole_server.service.alert_book import StoredBook
from longpole_server.service.alert_histories import HistoryReader, RunSteps
from longpole_server.service.alert_service import AlertService
from longpole_server.service.alerting import AlertEvaluator, AlertSources, OwnReading
from longpole_server.service.runs import RunsReader
from support.alert_histories import make_rule
from support.server_runs import BEGIN_NS, RunScript, S, gpu_samples
from support.server_service import LOST_AFTER_S, ServiceBench


def judge(bench: ServiceBench, run_id: str, at_s: float | None = None) -> list[Alert]:
    """Let the evaluator do what is due at a time; return the run's alerts, newest first."""
    if at_s is not None:
        bench.clock.seconds = at_s
    # Answers may be seconds old, and a run is not judged at every change of a step.
    bench.clock.seconds += 2.0
    bench.alert_desk.evaluator.process()
    bench.clock.seconds += 5.0
    bench.alert_desk.evaluator.process()
    return list(bench.service.alerts.list_alerts(run_id=run_id))


def train(
    bench: ServiceBench, run: RunScript, losses: Sequence[float], first: int = 1, start_s: float = 0
) -> None:
    for index, loss in enumerate(losses):
        step = first + index
        begin_s = start_s + 10.0 * index
        bench.write(run.whole_step(step, begin_s))
        bench.write(run.scalars(step, begin_s + 10.0, {"actor/pg_loss": loss}))


def states(alerts: Sequence[Alert]) -> list[tuple[str, str]]:
    return sorted((alert.rule, alert.state) for alert in alerts)


NAN = float("nan")


def test_a_step_that_breaks_fires_once_and_resolves(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    alerts = judge(bench, run_id, 25.0)
    assert states(alerts) == [("loss.nan", "firing")]
    assert alerts[0].started_ns == run.at(20.0)
    assert states(judge(bench, run_id)) == [("loss.nan", "firing")]
    train(bench, run, [0.1], first=3, start_s=20.0)
    assert states(judge(bench, run_id, 35.0)) == [("loss.nan", "resolved")]
    summary = bench.service.get_run(run_id).summary
    assert summary.open_alerts == 0


def test_scalars_that_come_after_the_step_was_judged_still_count(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    assert judge(bench, run_id, 11.0) == []
    bench.write(run.scalars(1, 12.0, {"actor/pg_loss": NAN}))
    assert states(judge(bench, run_id)) == [("loss.nan", "firing")]


def test_late_data_never_pages(bench: ServiceBench, run_id: str):
    bench.clock.seconds = 3_600.0
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    assert judge(bench, run_id) == []


def test_imported_runs_never_page(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(imported=True))
    for step, loss in ((1, 0.1), (2, NAN)):
        values = {"actor/pg_loss": loss, "timing_s/step": 10.0, "timing_s/gen": 6.0}
        bench.write(run.scalars(step, 10.0 * step, values))
    assert judge(bench, run_id, 25.0) == []
    assert bench.service.get_run(run_id).summary.open_alerts is None
    assert [alert.rule for alert in bench.service.alerts.replay(run_id)] == ["loss.nan"]


def test_a_run_that_comes_from_another_server_pages_only_once_it_is_trained_here(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    bench.clock.seconds = 60.0
    bench.alert_desk.evaluator.note_arrival(run_id)
    assert judge(bench, run_id) == []
    assert judge(bench, run_id, 300.0) == []
    resumed = RunScript(run_id, attempt=2, begin_ns=run.at(310.0), pid=4_001)
    bench.write(resumed.start())
    train(bench, resumed, [NAN])
    assert states(judge(bench, run_id, 330.0)) == [("loss.nan", "firing")]


def test_a_finished_run_is_not_stalled_and_its_alerts_end(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    assert states(judge(bench, run_id, 25.0)) == [("loss.nan", "firing")]
    bench.write(run.end(30.0))
    assert states(judge(bench, run_id, 400.0)) == [("loss.nan", "resolved")]


def test_a_run_whose_steps_do_not_close_is_stalled(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, 0.1, 0.1])
    bench.write(run.announce(4, "step", 30.0, 200.0), run.announce(4, "gen", 30.0, 200.0))
    (alert,) = judge(bench, run_id, 201.0)
    assert (alert.rule, alert.state, alert.severity) == ("run.stalled", "firing", "critical")
    assert "it has been in gen of step 4 for 2 min 5" in alert.summary
    train(bench, run, [0.1], first=4, start_s=200.0)
    assert states(judge(bench, run_id, 215.0)) == [("run.stalled", "resolved")]


def test_a_lost_run_is_gone_until_it_comes_back(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, 0.1])
    bench.write(run.announce(3, "step", 20.0, 30.0))
    (alert,) = judge(bench, run_id, 190.0)
    assert (alert.rule, alert.state) == ("trainer.gone", "firing")
    resumed = RunScript(run_id, attempt=2, begin_ns=run.at(200.0), pid=4_001)
    bench.clock.seconds = 205.0
    bench.write(resumed.start())
    assert states(judge(bench, run_id, 206.0)) == [("trainer.gone", "resolved")]


def test_who_tells_of_stages_once_they_are_over_is_not_called_gone(
    bench: ServiceBench, run_id: str
):
    """Long stages, and an end that is not told, are silent too."""
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, 0.1])
    assert judge(bench, run_id, 400.0) == []


def test_a_log_that_is_followed_no_more_is_not_called_gone(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    followed = replace(run.process(0.0), service=IMPORT_SERVICE)
    bench.write(replace(run.start(), processes=[followed]))
    for step in (1, 2):
        bench.write(run.scalars(step, 10.0 * step, {"timing_s/step": 9.0, "timing_s/gen": 5.0}))
    bench.write(run.announce(3, "step", 20.0, 30.0))
    assert judge(bench, run_id, 400.0) == []


def test_a_crash_is_told_and_forgotten_after_a_day(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1])
    bench.write(run.end(12.0, "crashed"))
    (alert,) = judge(bench, run_id, 20.0)
    assert (alert.rule, alert.state) == ("trainer.gone", "firing")
    assert "it ended as 'crashed'" in alert.summary
    assert states(judge(bench, run_id, 80_000.0)) == [("trainer.gone", "firing")]
    assert states(judge(bench, run_id, 90_000.0)) == [("trainer.gone", "resolved")]


def test_a_gpu_that_vanishes_and_a_node_that_falls_silent(bench: ServiceBench, run_id: str):
    run = RunScript(run_id, host=f"{run_id}-node", gpu_ids=(f"{run_id}-0", f"{run_id}-1"))
    bench.write(run.start(gpu_count=2))
    for index, until_s in ((0, 100), (1, 10)):
        bench.write(gpu_samples(f"{run_id}-{index}", index, 0, until_s, 0.9, host=run.host))
    bench.clock.seconds = 95.0
    train(bench, run, [0.1], start_s=80.0)
    bench.joiner.join()
    (alert,) = judge(bench, run_id, 98.0)
    assert (alert.rule, alert.entity.id) == ("gpu.lost", f"{run_id}-1")
    assert f"GPU {run.host}/1 has been silent" in alert.summary
    train(bench, run, [0.1, 0.1], first=2, start_s=160.0)
    assert states(judge(bench, run_id, 185.0)) == [
        ("gpu.lost", "firing"),
        ("node.silent", "firing"),
    ]
    replayed = {(alert.rule, alert.entity.id) for alert in bench.service.alerts.replay(run_id)}
    assert replayed == {("gpu.lost", f"{run_id}-1"), ("node.silent", run.host)}
    bench.write(Records(host_samples=[HostSample(run.host, BEGIN_NS + 190 * S)]))
    train(bench, run, [0.1], first=4, start_s=181.0)
    assert ("node.silent", "resolved") in states(judge(bench, run_id, 195.0))


def test_a_node_whose_clock_is_behind_is_told_as_that_and_not_as_silent(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id, host=f"{run_id}-node")
    bench.write(run.start())
    found: list[tuple[str, str]] = []
    for second in range(0, 200, 20):
        if second % 40 == 0:
            train(bench, run, [0.1], first=second // 40 + 1, start_s=second - 10.0)
        late_ns = BEGIN_NS + (second - 1_200) * S
        sample = HostSample(run.host, late_ns, spool_used_ratio=0.0, clock_offset_s=-1_200.0)
        bench.write(Records(host_samples=[sample]))
        found = states(judge(bench, run_id, float(second)))
    assert ("clock.skew", "firing") in found
    assert ("node.silent", "firing") not in found
    (alert,) = [a for a in judge(bench, run_id) if a.rule == "clock.skew"]
    assert alert.summary == f"The clock of node {run.host} is 20 min behind the server's."


class BrokenForOneRun(HistoryReader):
    """Cannot read what one run does."""

    run_id = ""

    def describe_run(self, summary: RunSummary, points: Sequence[StepPoint]) -> RunContext:
        if summary.run_id == self.run_id:
            raise StoreError("a row that makes no sense")
        return super().describe_run(summary, points)


def test_what_cannot_be_judged_of_one_run_keeps_no_other_from_it(bench: ServiceBench, run_id: str):
    evaluator, book = build_evaluator(bench, lambda: OwnReading(0, 0), histories=BrokenForOneRun)
    for name in (f"{run_id}-a", f"{run_id}-b"):
        bench.write(RunScript(name).start())
        train(bench, RunScript(name), [0.1])
        bench.write(RunScript(name).announce(2, "step", 10.0, 20.0))
    BrokenForOneRun.run_id = f"{run_id}-a"
    bench.clock.seconds = 200.0
    evaluator.process()
    fired = {
        alert.run_id
        for alert in book.list_alerts()
        if alert.rule in ("run.stalled", "trainer.gone")
    }
    assert f"{run_id}-b" in fired
    assert f"{run_id}-a" not in fired
    assert not evaluator.is_stuck


class BrokenOnce(HistoryReader):
    """Fails at the first step that it is asked for, as when the database does."""

    num_asked = 0

    def update_steps(self, run_id: str, attempt: int) -> RunSteps:
        self.num_asked += 1
        if self.num_asked == 1:
            raise StoreError("gone for a moment")
        return super().update_steps(run_id, attempt)


def test_a_step_whose_judging_failed_is_judged_again_though_nothing_changes(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    runs = RunsReader(bench.reader, bench.revisions, LOST_AFTER_S, lambda _: (), bench.clock.now_ns)
    book = StoredBook(bench.alert_store, bench.clock.now_ns)
    evaluator = AlertEvaluator(
        book,
        BrokenOnce(bench.reader, bench.alert_store.reader, runs),
        AlertSources(runs, bench.revisions, lambda: OwnReading(0, 0)),
        lambda: None,
        bench.clock.now_ns,
        bench.clock.now_s,
    )
    evaluator.process()
    for _ in range(3):
        bench.clock.seconds += 5.0
        evaluator.process()
    assert evaluator.stats.num_failed == 1
    assert ("loss.nan", "firing") in states(
        [alert for alert in book.list_alerts() if alert.run_id == run_id]
    )


def test_state_is_rebuilt_after_a_restart(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1, NAN])
    (before,) = judge(bench, run_id, 25.0)
    again = bench.reopened()
    (after,) = again.service.alerts.list_alerts(run_id=run_id)
    assert repr(after) == repr(before), "a NaN equals nothing"
    assert judge(again, run_id)[0].count >= before.count
    events = again.service.alerts.list_events(run_id)
    assert [event.kind for event in events] == ["firing"]


def build_evaluator(
    bench: ServiceBench,
    read_own: Callable[[], OwnReading],
    grace_s: float = 0.0,
    rules: Sequence[Rule] = BUILT_IN_RULES,
    histories: type[HistoryReader] = HistoryReader,
) -> tuple[AlertEvaluator, StoredBook]:
    book = StoredBook(bench.alert_store, bench.clock.now_ns, rules)
    runs = RunsReader(
        bench.reader,
        bench.revisions,
        LOST_AFTER_S,
        lambda _: (),
        lambda: bench.clock.now_ns() - round(read_own().lag_s * 1e9),
    )
    evaluator = AlertEvaluator(
        book,
        histories(bench.reader, bench.alert_store.reader, runs),
        AlertSources(runs, bench.revisions, read_own),
        lambda: None,
        bench.clock.now_ns,
        bench.clock.now_s,
        grace_s,
    )
    return evaluator, book


def test_nothing_is_called_silent_right_after_a_start(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1])
    bench.write(run.announce(2, "step", 10.0, 10.0))
    bench.clock.seconds += 180.0
    evaluator, book = build_evaluator(bench, lambda: OwnReading(0, 0), grace_s=60.0)
    evaluator.process()
    assert not book.has_open(run_id)
    bench.clock.seconds += 61.0
    evaluator.process()
    assert book.has_open(run_id)


def test_what_waits_to_be_stored_makes_neither_nodes_silent_nor_runs_stalled(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [0.1])
    bench.write(run.announce(2, "step", 10.0, 10.0))
    begun_s = bench.clock.seconds
    is_behind = True

    def read_own() -> OwnReading:
        lag_s = bench.clock.seconds - begun_s if is_behind else 0.0
        return OwnReading(20, 0, lag_s=lag_s)

    evaluator, book = build_evaluator(bench, read_own)
    for _ in range(30):
        evaluator.process()
        bench.clock.seconds += 30.0
    assert not book.has_open(run_id)
    is_behind = False
    evaluator.process()
    assert book.has_open(run_id), "nothing waits any more, and nothing came"


def test_a_server_that_refuses_data_says_so(bench: ServiceBench):
    totals = itertools.chain([0, 0], itertools.repeat(3))
    evaluator, book = build_evaluator(bench, lambda: OwnReading(12, next(totals), 0.95, 1 << 30))
    for _ in range(3):
        evaluator.process()
        bench.clock.seconds += 10.0
    found = {alert.rule: alert for alert in book.list_alerts() if alert.run_id is None}
    assert found["disk.filling"].state == "firing"
    assert "1 GiB are left" in found["disk.filling"].summary
    event = next(
        each for each in book.store.reader.list_events(None, 100, 0) if each.rule == "disk.filling"
    )
    assert (
        [value for _, value in book.list_past(event)] == [0.95] * len(book.list_past(event)) != []
    )
    dropping = found["ingest.dropping"]
    assert dropping.summary == "3 requests were refused or lost in 5 min; 12 wait to be stored."
    for _ in range(40):
        bench.clock.seconds += 10.0
        evaluator.process()
    found = {alert.rule: alert for alert in book.list_alerts() if alert.run_id is None}
    assert found["ingest.dropping"].state == "resolved"


def test_a_stuck_evaluator_is_seen(bench: ServiceBench):
    entered, released = threading.Event(), threading.Event()

    def hang() -> OwnReading:
        entered.set()
        released.wait(60.0)
        return OwnReading(0, 0)

    evaluator, book = build_evaluator(bench, hang)
    evaluator.start()
    try:
        assert entered.wait(60.0)
        assert not evaluator.is_stuck
        bench.clock.seconds += 121.0
        assert evaluator.is_stuck
        service = AlertService(
            book,
            bench.alert_store.reader,
            bench.alert_desk.histories,
            bench.alert_desk.deliverer,
            read_stuck_s=lambda: evaluator.stats.age_s if evaluator.is_stuck else 0.0,
        )
        assert "has been judged for 2 min" in (service.explain_blindness() or "")
        # Who asks does not wait for it.
        assert service.list_rules()
    finally:
        released.set()
        evaluator.close()


def test_a_round_that_the_end_of_the_server_overtakes_is_told_as_no_error(
    bench: ServiceBench, run_id: str, caplog: pytest.LogCaptureFixture
):
    evaluator, _ = build_evaluator(bench, lambda: OwnReading(0, 0), histories=BrokenForOneRun)
    bench.write(RunScript(run_id).start())
    train(bench, RunScript(run_id), [0.1])
    BrokenForOneRun.run_id = run_id
    bench.clock.seconds = 200.0
    evaluator.close()
    evaluator.process()
    assert not caplog.records
    assert evaluator.stats.num_failed == 0


class Broken:
    fire: float | None = None
    clear: float | None = None
    unit = "1"
    reads = ("nothing",)

    def judge(self, history: History) -> Judgement:
        raise KeyError(history.entity.id)


def test_a_detector_that_fails_is_counted_and_stops_no_other(bench: ServiceBench, run_id: str):
    rules = [make_rule(detector=Broken()), *BUILT_IN_RULES]
    evaluator, book = build_evaluator(bench, lambda: OwnReading(0, 0), rules=rules)
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, [NAN])
    bench.clock.seconds = 15.0
    evaluator.process()
    own = [alert for alert in book.list_alerts() if alert.run_id == run_id]
    assert states(own) == [("loss.nan", "firing")]
    assert book.stats.num_detector_failures > 0
    assert "KeyError" in book.last_failure
