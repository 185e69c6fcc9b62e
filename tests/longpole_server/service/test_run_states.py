from dataclasses import replace

import pytest

from longpole_server.model.records import RunEnd, StageStart
from longpole_server.read import AttemptRow
from longpole_server.service.run_states import (
    Usual,
    choose_controller,
    end_superseded,
    find_open_stage,
    judge_state,
)
from support.server_runs import RunScript

RUN = RunScript("run")
START = RUN.start().run_starts[0]
LOST_AFTER_S = 120.0


def row(last_seen_s: float, status: str | None = None) -> AttemptRow:
    end = RunEnd("run", 1, RUN.at(last_seen_s), status) if status is not None else None
    return AttemptRow(START, end, RUN.at(last_seen_s))


def state(
    now_s: float,
    last_seen_s: float,
    last_closed_s: float | None = None,
    usual_s: float | None = None,
    status: str | None = None,
) -> str:
    last_closed_ns = None if last_closed_s is None else RUN.at(last_closed_s)
    return judge_state(
        row(last_seen_s, status), last_closed_ns, usual_s, RUN.at(now_s), LOST_AFTER_S
    )


def test_a_run_that_goes_on_is_live():
    assert state(now_s=50.0, last_seen_s=48.0, last_closed_s=40.0, usual_s=10.0) == "live"


@pytest.mark.parametrize("status", ["finished", "completed", "Success"])
def test_a_good_end_is_finished(status: str):
    assert state(now_s=9_999.0, last_seen_s=50.0, status=status) == "finished"


@pytest.mark.parametrize("status", ["crashed", "error", "killed"])
def test_any_other_end_is_crashed(status: str):
    assert state(now_s=9_999.0, last_seen_s=50.0, status=status) == "crashed"


def test_heartbeats_without_progress_are_stalled():
    # Heartbeats go on: it is heard of, but no step closed for five usual ones.
    assert state(now_s=640.0, last_seen_s=639.0, last_closed_s=600.0, usual_s=60.0) == "live"
    assert state(now_s=895.0, last_seen_s=894.0, last_closed_s=600.0, usual_s=60.0) == "live"
    assert state(now_s=905.0, last_seen_s=904.0, last_closed_s=600.0, usual_s=60.0) == "stalled"


def test_short_steps_stall_after_two_minutes_only():
    assert state(now_s=119.0, last_seen_s=118.0, last_closed_s=0.0, usual_s=1.0) == "live"
    assert state(now_s=121.0, last_seen_s=118.0, last_closed_s=0.0, usual_s=1.0) == "stalled"


def test_the_first_step_may_take_its_time():
    assert state(now_s=1_700.0, last_seen_s=1_699.0) == "live"
    assert state(now_s=1_900.0, last_seen_s=1_899.0) == "stalled"


def test_silence_of_all_processes_is_lost():
    assert state(now_s=119.0, last_seen_s=0.0, last_closed_s=0.0, usual_s=100.0) == "live"
    assert state(now_s=121.0, last_seen_s=0.0, last_closed_s=0.0, usual_s=100.0) == "lost"


def attempt_row(
    number: int, started_s: float, last_seen_s: float, run_id: str = "run"
) -> AttemptRow:
    script = RunScript(run_id, number, RUN.at(started_s))
    return AttemptRow(script.start().run_starts[0], None, RUN.at(last_seen_s))


def test_an_attempt_that_crashed_and_was_resumed_has_an_end():
    crashed, cut_short, newest, other = end_superseded(
        [
            attempt_row(3, 200.0, 210.0),
            attempt_row(1, 0.0, 50.0),
            attempt_row(2, 100.0, 205.0),
            attempt_row(1, 0.0, 40.0, "run/other"),
        ]
    )
    assert crashed.end == RunEnd("run", 1, RUN.at(50.0), "superseded")
    assert cut_short.end == RunEnd("run", 2, RUN.at(200.0), "superseded")
    assert newest.end is None
    assert other.end is None


def test_an_end_that_was_reported_is_kept():
    said = RunEnd("run", 1, RUN.at(30.0), "crashed")
    first = replace(attempt_row(1, 0.0, 30.0), end=said)
    assert end_superseded([first, attempt_row(2, 100.0, 110.0)])[0].end == said


def announce(step: int, stage: str, start_s: float, seen_s: float | None = None) -> StageStart:
    return RUN.announce(step, stage, start_s, seen_s).stage_starts[0]


USUAL = {"gen": Usual(6.0, 7.0), "step": Usual(10.0, 12.0)}


def test_the_innermost_open_window_is_shown_with_what_is_usual():
    opened = find_open_stage(
        [announce(3, "step", 20.0, 41.0), announce(3, "gen", 20.1, 41.0)], [], USUAL
    )
    assert opened is not None
    assert (opened.step, opened.stage, opened.usual_s, opened.usual_max_s) == (3, "gen", 6.0, 7.0)
    assert opened.since_ns == RUN.at(20.1)
    assert opened.step_since_ns == RUN.at(20.0)
    assert opened.seen_ns == RUN.at(41.0)


def test_a_finished_stage_is_not_open():
    starts = [announce(3, "step", 20.0), announce(3, "gen", 20.0), announce(3, "reward", 26.0)]
    spans = RUN.stages(3, 20.0, [("gen", 0.0, 6.0)]).stage_spans
    opened = find_open_stage(starts, spans, USUAL)
    assert opened is not None
    assert (opened.stage, opened.usual_s) == ("reward", None)
    between = find_open_stage(starts[:2], spans, USUAL)
    assert between is not None
    assert (between.stage, between.usual_s) == ("step", 10.0)


def test_nothing_is_open_after_the_step():
    starts = [announce(3, "step", 20.0), announce(3, "gen", 20.0)]
    assert find_open_stage(starts, RUN.loop(3, 20.0).stage_spans, USUAL) is None
    assert find_open_stage([], [], USUAL) is None


def test_validation_between_steps_is_shown():
    starts = [announce(3, "step", 20.0), announce(3, "testing", 30.5)]
    opened = find_open_stage(starts, RUN.loop(3, 20.0).stage_spans, USUAL)
    assert opened is not None
    assert (opened.stage, opened.step_since_ns) == ("testing", None)


def test_a_window_whose_span_was_lost_ends_with_its_heartbeats():
    starts = [
        announce(3, "step", 20.0, seen_s=100.0),
        announce(3, "gen", 20.0, seen_s=30.0),
        announce(3, "update_actor", 40.0, seen_s=100.0),
    ]
    opened = find_open_stage(starts[:2], [], USUAL)
    assert opened is not None
    assert opened.stage == "step"


def test_other_processes_do_not_speak_for_the_loop():
    worker = StageStart("run", 1, 3, "gen", RUN.at(25.0), RUN.at(25.0), "node-1", 9, "rollout")
    starts = [announce(3, "step", 20.0), worker]
    assert choose_controller(starts) == starts[:1]
    # Nobody announces steps: those whose stages make the ledger speak.
    assert choose_controller([announce(3, "gen", 20.0), worker])[0].stage == "gen"
    assert choose_controller([worker]) == []
