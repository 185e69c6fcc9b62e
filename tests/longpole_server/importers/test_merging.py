"""Lines of one step become one step; a resume becomes a second attempt."""

from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.merging import merge_steps


def timed(step: int, seconds: float) -> LogLine:
    return LogLine(step, {"timing_s/step": seconds})


def merge(*lines: LogLine) -> tuple[list[tuple[int, int]], LogSummary]:
    summary = LogSummary()
    steps = list(merge_steps(lines, summary))
    return [(step.attempt, step.step) for step in steps], summary


def test_several_calls_about_one_step_are_merged() -> None:
    steps = list(
        merge_steps([LogLine(1, {"a": 1.0}), timed(1, 2.0), LogLine(2, {"a": 3.0})], LogSummary())
    )
    assert [step.scalars for step in steps] == [{"a": 1.0, "timing_s/step": 2.0}, {"a": 3.0}]


def test_a_step_number_that_goes_back_is_a_resume() -> None:
    steps, summary = merge(
        timed(1, 1.0), timed(2, 1.0), timed(3, 1.0), timed(2, 1.5), timed(3, 1.5)
    )
    assert steps == [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3)]
    assert summary.num_attempts == 2
    assert [note.code for note in summary.finish()] == ["run.resumed"]


def test_the_last_step_done_again_is_a_resume() -> None:
    assert merge(timed(1, 1.0), timed(1, 1.5))[0] == [(1, 1), (2, 1)]


def test_the_same_line_printed_twice_is_no_resume() -> None:
    steps, summary = merge(timed(1, 1.0), timed(1, 1.0), timed(2, 1.0))
    assert steps == [(1, 1), (1, 2)]
    assert summary.num_attempts == 1


def test_interleaved_calls_of_an_asynchronous_trainer_are_no_resume() -> None:
    steps, _ = merge(timed(4, 1.0), timed(5, 1.0), LogLine(4, {"val/acc": 0.5}), timed(6, 1.0))
    assert steps == [(1, 4), (1, 5), (1, 6)]
