"""Which run and attempt data belongs to, seen through the normaliser."""

import pytest

from longpole_server.ingest.normalize import KnownAttempt
from longpole_server.model.records import RunStart
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed, place_of

RUN_START = "rl.run.start"
RUN_END = "rl.run.end"
STAGE_START = "rl.stage.start"


def test_one_process_is_one_attempt_however_its_data_is_ordered() -> None:
    feed = Feed()
    sender = otlp.process()

    first = feed.traces(sender, [otlp.loop(5, 50, 60)], at_s=61)
    late = feed.traces(sender, [otlp.loop(3, 30, 40), otlp.loop(5, 50, 60)], at_s=62)

    assert place_of(first) == place_of(late) == {("run", 1)}
    assert len(feed.all_starts) == 1


def test_another_process_after_the_first_died_is_another_attempt() -> None:
    feed = Feed()
    feed.event(otlp.process(pid=1, start_s=0), RUN_START, 5)
    feed.traces(otlp.process(pid=1, start_s=0), [otlp.loop(1, 10, 20)], at_s=20)

    feed.event(otlp.process(pid=2, start_s=25), RUN_START, 30)
    resumed = feed.traces(otlp.process(pid=2, start_s=25), [otlp.loop(1, 30, 40)], at_s=40)
    late = feed.traces(otlp.process(pid=1, start_s=0), [otlp.stage("gen", 1, 10, 15)], at_s=41)

    assert place_of(resumed) == {("run", 2)}
    assert place_of(late) == {("run", 1)}
    assert [(start.attempt, start.declared) for start in feed.all_starts] == [(1, True), (2, True)]


def test_the_same_pid_with_another_start_is_another_process() -> None:
    feed = Feed()
    feed.traces(otlp.process(pid=1, start_s=0), [otlp.loop(1, 10, 20)], at_s=20)

    resumed = feed.traces(otlp.process(pid=1, start_s=22), [otlp.loop(2, 30, 40)], at_s=40)

    assert place_of(resumed) == {("run", 2)}


def test_a_declared_attempt_holds() -> None:
    feed = Feed()

    third = feed.traces(otlp.process(rl__run__attempt=3), [otlp.loop(1, 0, 10)], at_s=10)
    worker = otlp.process(role="rollout", pid=7, rl__run__attempt=3)
    follower = feed.traces(worker, [otlp.stage("gen", 1, 0, 5)], at_s=10)
    fourth = feed.traces(
        otlp.process(pid=2, start_s=11, rl__run__attempt=4), [otlp.loop(1, 12, 20)], at_s=20
    )

    assert place_of(third) == place_of(follower) == {("run", 3)}
    assert place_of(fourth) == {("run", 4)}


def test_where_pid_is_unknown_the_iteration_going_back_is_a_new_attempt() -> None:
    feed = Feed()
    sender = otlp.process(role=None, pid=None, start_s=None)
    feed.traces(sender, [otlp.loop(1, 0, 10), otlp.loop(2, 10, 20)], at_s=20)

    resent = feed.traces(sender, [otlp.loop(1, 0, 10)], at_s=21)
    resumed = feed.traces(sender, [otlp.loop(2, 30, 40)], at_s=40)
    going_on = feed.traces(sender, [otlp.loop(3, 40, 50)], at_s=50)

    assert place_of(resent) == {("run", 1)}
    assert place_of(resumed) == place_of(going_on) == {("run", 2)}


def test_a_container_that_reuses_its_pid_is_told_apart_by_the_iteration() -> None:
    feed = Feed()
    sender = otlp.process(pid=1, start_s=None)
    feed.traces(sender, [otlp.loop(1, 0, 10), otlp.loop(2, 10, 20)], at_s=20)

    assert place_of(feed.traces(sender, [otlp.loop(1, 30, 40)], at_s=40)) == {("run", 2)}


def test_an_iteration_going_back_in_one_known_process_is_no_new_attempt() -> None:
    feed = Feed()
    feed.traces(otlp.process(), [otlp.loop(9, 0, 10)], at_s=10)

    assert place_of(feed.traces(otlp.process(), [otlp.loop(1, 20, 30)], at_s=30)) == {("run", 1)}


def test_two_live_controllers_are_two_runs() -> None:
    feed = Feed()
    first, second = otlp.process(pid=1, start_s=0), otlp.process(pid=2, start_s=1)
    feed.event(first, RUN_START, 5)
    feed.event(second, RUN_START, 5.3)

    here = feed.traces(first, [otlp.loop(1, 6, 10)], at_s=10)
    there = feed.traces(second, [otlp.loop(1, 6, 11)], at_s=11)

    assert place_of(here) == {("run", 1)}
    assert place_of(there) == {("run#2", 1)}
    (collided,) = (start for start in feed.all_starts if start.run_id == "run#2")
    assert "'run'" in collided.notes[0]


def test_a_third_live_controller_is_a_third_run() -> None:
    feed = Feed()
    for pid in (1, 2, 3):
        sender = otlp.process(pid=pid, start_s=0, host=f"node{pid}")
        feed.event(sender, RUN_START, 5 + pid)

    assert [start.run_id for start in feed.all_starts] == ["run", "run#2", "run#3"]


def test_a_controller_that_goes_on_after_another_took_over_gets_its_run_back() -> None:
    """The first was silent when the second began, so only its next sign shows that both live."""
    feed = Feed()
    first, second = otlp.process(pid=1, start_s=0), otlp.process(pid=2, start_s=22)
    feed.traces(first, [otlp.loop(1, 10, 20)], at_s=20)
    assert place_of(feed.event(second, STAGE_START, 25, rl__stage="step")) == {("run", 2)}

    here = feed.traces(first, [otlp.loop(2, 20, 30)], at_s=30)
    there = feed.traces(second, [otlp.loop(1, 25, 31)], at_s=31)

    assert place_of(here) == {("run", 3)}
    assert place_of(there) == {("run#2", 1)}
    assert any("run#2" in note for note in feed.all_starts[-2].notes)


def test_a_worker_of_colliding_runs_goes_to_the_controller_on_its_host() -> None:
    feed = Feed()
    feed.event(otlp.process(pid=1, start_s=0, host="a"), RUN_START, 5)
    feed.event(otlp.process(pid=1, start_s=0, host="b"), RUN_START, 7)

    worker = otlp.process(role="trainer", pid=9, host="b")
    placed = feed.traces(worker, [otlp.stage("update_actor", 1, 6, 8)], at_s=8)

    assert place_of(placed) == {("run#2", 1)}


def test_an_ended_run_does_not_collide() -> None:
    feed = Feed()
    feed.traces(otlp.process(pid=1, start_s=0), [otlp.loop(1, 0, 10)], at_s=10)
    feed.event(otlp.process(pid=1, start_s=0), RUN_END, 11, rl__status="finished")

    following = feed.event(otlp.process(pid=2, start_s=5), RUN_START, 12)

    assert [(start.run_id, start.attempt) for start in following.run_starts] == [("run", 2)]


def test_a_reused_worker_process_that_resumes_does_not_collide() -> None:
    """Ray keeps processes ready: their start is long before the run's."""
    feed = Feed()
    feed.traces(otlp.process(pid=1, start_s=0), [otlp.loop(1, 900, 1000)], at_s=1000)

    resumed = feed.event(otlp.process(pid=2, start_s=10), RUN_START, 1010)

    assert [(start.run_id, start.attempt) for start in resumed.run_starts] == [("run", 2)]


def test_a_run_begun_again_in_one_process_is_another_attempt() -> None:
    feed = Feed()
    sender = otlp.process()
    feed.event(sender, RUN_START, 1)
    feed.event(sender, RUN_END, 10)

    again = feed.event(sender, RUN_START, 11)
    resent = feed.event(sender, RUN_START, 1)

    assert [start.attempt for start in again.run_starts] == [2]
    assert {start.attempt for start in resent.run_starts} <= {2}


def test_data_of_workers_before_the_controller_belongs_to_its_attempt() -> None:
    feed = Feed()
    worker = otlp.process(role="rollout", pid=5)

    early = feed.traces(worker, [otlp.stage("gen", 1, 0, 1)], at_s=1)
    started = feed.event(otlp.process(pid=1, start_s=1), RUN_START, 2, rl__config__n=8)

    assert place_of(early) == {("run", 1)}
    assert [(start.attempt, start.pid) for start in started.run_starts] == [(1, 1)]
    assert started.run_starts[0].config == {"n": "8"}


def test_workers_follow_by_time() -> None:
    feed = Feed()
    feed.traces(otlp.process(pid=1, start_s=0), [otlp.loop(1, 0, 10)], at_s=10)
    feed.event(otlp.process(pid=2, start_s=15), RUN_START, 20)
    worker = otlp.process(role="trainer", pid=9)

    old = feed.traces(worker, [otlp.stage("gen", 1, 5, 8)], at_s=21)
    new = feed.traces(worker, [otlp.stage("gen", 1, 22, 25)], at_s=25)

    assert place_of(old) == {("run", 1)}
    assert place_of(new) == {("run", 2)}


def test_ranks_that_all_send_loops_are_one_attempt() -> None:
    feed = Feed()
    places: set[tuple[str, int]] = set()
    for step in (1, 2, 3):
        for rank in range(4):
            sender = otlp.process(role="trainer", pid=rank + 1, start_s=None)
            spans = [otlp.loop(step, step * 100, step * 100 + 90 + rank)]
            places |= place_of(feed.traces(sender, spans, at_s=step * 100 + 95))

    assert places == {("run", 1)}


def test_a_restart_of_the_server_begins_no_attempt() -> None:
    before = Feed()
    first, second = otlp.process(pid=1, start_s=0), otlp.process(pid=2, start_s=1)
    before.event(first, RUN_START, 5)
    before.event(second, RUN_START, 7)
    known = [KnownAttempt(start, otlp.at(10), last_step=4) for start in before.all_starts]

    feed = Feed(known)
    here = feed.traces(first, [otlp.loop(5, 10, 20)], at_s=20)
    there = feed.traces(second, [otlp.loop(5, 10, 21)], at_s=21)

    assert place_of(here) == {("run", 1)}
    assert place_of(there) == {("run#2", 1)}
    assert feed.all_starts == []


def test_live_data_of_an_imported_run_is_another_attempt() -> None:
    imported = RunStart("run", 1, otlp.at(0), imported=True)
    feed = Feed([KnownAttempt(imported, otlp.at(10))])

    assert place_of(feed.traces(otlp.process(), [otlp.loop(1, 20, 30)], at_s=30)) == {("run", 2)}


@pytest.mark.parametrize("clock_s", [10_000_000.0, -1_000_000.0])
def test_a_broken_clock_of_one_controller_does_not_make_the_next_collide(clock_s: float) -> None:
    feed = Feed()
    sender = otlp.process(pid=1, start_s=None)
    feed.traces(sender, [otlp.loop(1, clock_s, clock_s + 10)], at_s=20)

    resumed = feed.event(otlp.process(pid=2, start_s=115), RUN_START, 120)

    assert [(start.run_id, start.attempt) for start in resumed.run_starts] == [("run", 2)]
