import itertools
import random
from collections.abc import Callable

import pytest

from longpole_server.errors import StoreError
from longpole_server.model.records import Records
from longpole_server.model.step import Step
from support.server_runs import PLAIN_STAGES, PLAIN_STEP_S, RunScript, merge
from support.server_service import ServiceBench


def ledger(step: Step) -> dict[str, float]:
    """Exclusive seconds by stage, with what no stage covers."""
    seconds = {stage.stage: round(stage.exclusive_s, 6) for stage in step.stages}
    return {**seconds, "unattributed": round(step.unattributed_s or 0.0, 6)}


PLAIN_LEDGER = {
    "gen": 6.0,
    "reward": 0.5,
    "old_log_prob": 1.0,
    "update_actor": 1.5,
    "update_weights": 0.5,
    "unattributed": 0.5,
}


def test_a_loop_span_closes_its_step(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=2), run.whole_step(1, 0.0))
    (step,) = bench.service.list_steps(run_id)
    assert (step.step, step.closed_by, step.duration_s) == (1, "loop", PLAIN_STEP_S)
    assert ledger(step) == PLAIN_LEDGER
    assert step.tokens_total == 1_000
    assert step.throughput_tokens_per_s_per_gpu == pytest.approx(50.0)


@pytest.mark.parametrize("seed", range(4))
def test_order_of_arrival_does_not_matter(bench: ServiceBench, run_id: str, seed: int):
    run = RunScript(run_id)
    pieces = [
        run.start(),
        *(run.stages(1, 0.0, [stage]) for stage in PLAIN_STAGES),
        run.loop(1, 0.0),
        *(run.stages(2, 10.0, [stage]) for stage in PLAIN_STAGES),
        run.loop(2, 10.0),
        run.scalars(1, 10.2, {"critic/score/mean": 0.5}),
    ]
    random.Random(seed).shuffle(pieces)
    for piece in pieces:
        bench.write(piece)
    first, second = bench.service.list_steps(run_id)
    assert ledger(first) == ledger(second) == PLAIN_LEDGER


def test_duplicates_change_nothing(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    batch = merge(run.start(), run.whole_step(1, 0.0))
    bench.write(batch, token=f"{run_id}/same")
    bench.write(batch, token=f"{run_id}/same")
    # The same spans under another batch, as a sender without batch ids repeats them.
    bench.write(batch)
    (step,) = bench.service.list_steps(run_id)
    assert ledger(step) == PLAIN_LEDGER


def test_a_late_span_is_added_to_a_closed_step(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.stages(1, 0.0, PLAIN_STAGES[:-1]), run.loop(1, 0.0))
    (before,) = bench.service.list_steps(run_id)
    assert ledger(before)["unattributed"] == 1.0
    bench.write(run.stages(1, 0.0, PLAIN_STAGES[-1:]))
    (after,) = bench.service.list_steps(run_id)
    assert ledger(after) == PLAIN_LEDGER


def test_a_successor_closes_a_step_without_loop(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.stages(1, 0.0))
    (open_step,) = bench.service.list_steps(run_id)
    assert open_step.closed_by is None
    bench.write(run.stages(2, 10.0, PLAIN_STAGES[:1]))
    first, second = bench.service.list_steps(run_id)
    assert (first.closed_by, first.duration_s) == ("successor", 10.0)
    assert second.closed_by is None


def test_an_announced_successor_closes_too(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.stages(1, 0.0))
    bench.write(run.announce(2, "step", 10.0))
    steps = bench.service.list_steps(run_id)
    assert (steps[0].closed_by, steps[0].duration_s) == ("successor", 10.0)


def test_what_runs_between_two_steps_is_outside_of_the_first(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0), run.stages(1, 0.0, [("testing", 10.5, 14.0)]))
    bench.write(run.whole_step(2, 15.0))
    first, _ = bench.service.list_steps(run_id)
    assert first.duration_s == PLAIN_STEP_S
    assert [(outside.stage, outside.duration_s) for outside in first.outside] == [("testing", 3.5)]


def test_scalars_alone_make_steps(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=4))
    for step in (1, 2):
        values = {
            "timing_s/step": 10.0,
            "timing_s/gen": 6.0,
            "timing_s/update_actor": 3.0,
            "perf/total_num_tokens": 4_000.0,
        }
        bench.write(run.scalars(step, 10.0 * step, values))
    first, second = bench.service.list_steps(run_id)
    assert first.closed_by == "metrics"
    assert (first.duration_s, first.unattributed_s) == (10.0, pytest.approx(1.0))
    assert second.throughput_tokens_per_s_per_gpu == pytest.approx(100.0)
    assert {stage.source for stage in second.stages} == {"scalar"}


def test_spans_and_scalars_describe_one_step(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(
        run.start(gpu_count=2),
        run.whole_step(1, 0.0),
        run.scalars(1, 10.1, {"perf/mfu/actor": 0.41, "timing_s/gen": 6.0, "timing_s/step": 10.0}),
    )
    (step,) = bench.service.list_steps(run_id)
    assert step.closed_by == "loop"
    assert ledger(step) == PLAIN_LEDGER
    assert step.mfu_actor == pytest.approx(0.41)


def test_a_resumed_run_has_two_attempts_and_no_step_twice(bench: ServiceBench, run_id: str):
    first = RunScript(run_id)
    again = RunScript(run_id, attempt=2, begin_ns=first.at(100.0), pid=5_000)
    bench.write(first.start(), *(first.whole_step(n, 10.0 * n) for n in (1, 2, 3)))
    bench.write(again.start(), *(again.whole_step(n, 10.0 * n) for n in (2, 3, 4)))
    steps = bench.service.list_steps(run_id)
    assert [(step.step, step.attempt) for step in steps] == [(1, 1), (2, 2), (3, 2), (4, 2)]
    detail = bench.service.get_run(run_id)
    assert [(a.attempt, a.first_step, a.last_step) for a in detail.attempts] == [
        (1, 1, 1),
        (2, 2, 4),
    ]
    assert detail.summary.num_steps == 4


def test_two_runs_at_once_never_mix(bench: ServiceBench, run_id: str):
    one, two = RunScript(run_id + "/one"), RunScript(run_id + "/two", pid=7)
    bench.write(
        merge(one.start(), two.start()),
        merge(one.stages(1, 0.0), two.stages(1, 3.0, [("gen", 0.0, 2.0)])),
        merge(two.loop(1, 3.0, 4.0), one.loop(1, 0.0)),
        merge(one.sample("a", 0.0, 5.0), two.sample("a", 3.0, 4.0)),
    )
    (first,), (second,) = (bench.service.list_steps(run.run_id) for run in (one, two))
    assert ledger(first) == PLAIN_LEDGER
    assert ledger(second) == {"gen": 2.0, "unattributed": 2.0}
    for run, seconds in ((one, 5.0), (two, 1.0)):
        (sample,) = bench.service.list_trajectories(run.run_id, 1)
        assert sample.duration_s == seconds


def test_samples_of_unknown_step_join_the_step_in_which_they_end(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.sample("early", 1.0, 5.0), run.sample("later", 8.0, 14.0))
    bench.write(run.whole_step(1, 0.0), run.whole_step(2, 10.0))
    assert [s.trajectory_id for s in bench.service.list_trajectories(run_id, 1)] == ["early"]
    assert [s.trajectory_id for s in bench.service.list_trajectories(run_id, 2)] == ["later"]
    # One that comes after its step was judged is judged with it.
    bench.write(run.sample("late", 2.0, 6.0))
    assert bench.service.get_distribution(run_id, 1).count == 2


def test_every_derived_step_is_announced(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    before = bench.changes.current.version
    bench.write(run.whole_step(1, 0.0))
    assert bench.changes.current.version > before


def test_heartbeats_and_gpu_samples_are_announced_once_a_second(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.announce(1, "step", 0.0))
    before = bench.changes.current.version
    for tenth in range(10):
        bench.clock.seconds += 0.1
        bench.closer.on_written(run.announce(1, "step", 0.0, seen_s=30.0 + tenth))
        bench.closer.process()
    assert bench.changes.current.version - before == 1


class FailsTwice:
    """A write that fails twice, then works."""

    def __init__(self, write: Callable[..., None]) -> None:
        self._write = write
        self.num_calls = 0

    def __call__(self, *arguments: object) -> None:
        self.num_calls += 1
        if self.num_calls <= 2:
            raise StoreError("the disk is full")
        self._write(*arguments)


def test_what_fails_is_tried_again(
    bench: ServiceBench, run_id: str, caplog: pytest.LogCaptureFixture
):
    run = RunScript(run_id)
    failing = FailsTwice(bench.writer.write_steps)
    bench.writer.write_steps = failing  # type: ignore[method-assign]
    try:
        bench.write(run.start(), run.whole_step(1, 0.0))
        for _ in range(5):
            bench.derive()
    finally:
        del bench.writer.write_steps
    assert failing.num_calls == 3
    assert bench.closer.stats.num_failed == 2
    assert [step.step for step in bench.service.list_steps(run_id)] == [1]
    assert "derived later" in caplog.text


def test_after_a_crash_the_newest_steps_are_derived_from_what_was_stored(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    # Stored, but the process died before it derived anything of it.
    for index, records in enumerate((run.whole_step(2, 10.0), run.stages(3, 20.0))):
        bench.writer.write(records, f"{run_id}/{index}")
    assert [step.step for step in bench.service.list_steps(run_id)] == [1]
    restarted = bench.reopened()
    restarted.closer.recover()
    restarted.derive()
    steps = restarted.service.list_steps(run_id)
    assert [(step.step, step.closed_by) for step in steps] == [
        (1, "loop"),
        (2, "loop"),
        (3, None),
    ]


def test_the_thread_derives_and_ends(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.closer.start()
    try:
        for records in (run.start(), run.whole_step(1, 0.0)):
            bench.writer.write(records, f"{run_id}/{len(records)}")
            bench.closer.on_written(records)
        assert bench.closer.drain(60.0)
        assert [step.step for step in bench.service.list_steps(run_id)] == [1]
    finally:
        bench.closer.close()


def test_an_empty_batch_touches_nothing(bench: ServiceBench):
    before = bench.changes.current.version
    bench.closer.on_written(Records())
    bench.derive()
    assert bench.changes.current.version == before
    assert bench.closer.stats.num_waiting == 0


def test_steps_may_skip_numbers(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), *(run.stages(n, float(n)) for n in (10, 20, 30)))
    steps = bench.service.list_steps(run_id)
    assert [step.duration_s for step in steps] == [10.0, 10.0, None]
    starts = [step.start_ns for step in steps]
    assert all(later > earlier for earlier, later in itertools.pairwise(starts))


def test_steps_that_arrive_together_are_compared_with_those_before_them(
    bench: ServiceBench, run_id: str
):
    """A backlog, or an imported log: all steps close at once, and the last ones got slower."""
    script = RunScript(run_id)
    slow = [
        *((name, begin, end) for name, begin, end in PLAIN_STAGES if name != "update_weights"),
        ("update_weights", 9.0, 13.0),
    ]
    begin_s = 0.0
    batches = [script.start(system="verl", gpu_count=8)]
    for number in range(1, 16):
        is_slow = number > 12
        batches.append(script.stages(number, begin_s, slow if is_slow else PLAIN_STAGES))
        batches.append(script.loop(number, begin_s, 14.0 if is_slow else 10.0))
        begin_s += 15.0

    bench.write(merge(*batches))

    diagnosis = bench.service.diagnose(run_id, 13, 15)
    assert "regression.update_weights" in {finding.code for finding in diagnosis.findings}
    assert bench.service.get_step(run_id, 15).diagnosis is not None
