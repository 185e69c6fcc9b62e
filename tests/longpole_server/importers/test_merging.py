"""Lines of one step become one step; a resume becomes a second attempt."""

from hypothesis import given
from hypothesis import strategies as st

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


def test_a_resume_that_the_trainer_announces_begins_an_attempt_though_no_step_goes_back() -> None:
    goes_on = LogLine(3, {"timing_s/step": 1.0}, resumed=True)
    assert merge(timed(1, 1.0), timed(2, 1.0), goes_on)[0] == [(1, 1), (1, 2), (2, 3)]
    # The first one of a log tells of an attempt that is in another log.
    assert merge(goes_on, timed(4, 1.0))[0] == [(1, 3), (1, 4)]


def test_a_late_line_is_handed_on_and_begins_no_attempt() -> None:
    lines = [timed(step, 1.0) for step in range(1, 9)]
    steps, summary = merge(*lines, LogLine(2, {"val/acc": 0.5}), timed(9, 1.0))
    assert sorted(steps) == [(1, 1), (1, 2), (1, 2), *((1, step) for step in range(3, 10))]
    assert summary.num_attempts == 1


def test_validation_before_a_resumed_training_belongs_to_it() -> None:
    lines = [timed(step, 1.0) for step in range(1, 9)]
    steps, _ = merge(*lines, LogLine(2, {"val/acc": 0.5}), timed(3, 1.5), timed(4, 1.5))
    assert steps[8:] == [(2, 2), (2, 3), (2, 4)]


def test_a_torn_line_about_a_step_that_is_whole_takes_nothing_away_from_it() -> None:
    (step,) = merge_steps([timed(1, 1.0), LogLine(1, {"val/a": 0.5}, torn=True)], LogSummary())
    assert not step.torn


@given(
    st.lists(
        st.builds(
            LogLine,
            st.integers(0, 12),
            st.sampled_from([{"timing_s/step": 1.0}, {"timing_s/step": 2.0}, {"val/a": 1.0}]),
            st.booleans(),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_steps_of_an_attempt_never_go_back_before_its_last_few(lines: list[LogLine]) -> None:
    summary = LogSummary()
    steps = list(merge_steps(lines, summary))
    assert {step.step for step in steps} <= {line.step for line in lines}
    assert [step.attempt for step in steps] == sorted(step.attempt for step in steps)
    assert summary.num_attempts == max((step.attempt for step in steps), default=1)
