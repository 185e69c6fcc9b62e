from collections.abc import Mapping

import pytest

from longpole_server.analysis.window import summarise_window
from longpole_server.model.step import OutsideStage, StageTime, Step


def make_step(
    number: int,
    seconds: Mapping[str, float],
    unattributed_s: float = 0.0,
    *,
    attempt: int = 1,
    outside: Mapping[str, float] | None = None,
    closed: bool = True,
) -> Step:
    total = sum(seconds.values()) + unattributed_s
    return Step(
        run_id="run",
        step=number,
        attempt=attempt,
        start_ns=0,
        end_ns=1 if closed else None,
        duration_s=total if closed else None,
        closed_by="loop" if closed else None,
        stages=tuple(
            StageTime(stage, value, value, value / total, None, None, (), "scalar")
            for stage, value in seconds.items()
        ),
        unattributed_s=unattributed_s if closed else None,
        outside=tuple(OutsideStage(stage, value) for stage, value in (outside or {}).items()),
    )


def test_shares_are_sums_over_sums():
    steps = [make_step(2, {"gen": 10}, 10), make_step(3, {"gen": 90}, 10)]
    window = summarise_window(steps)
    assert window.shares == pytest.approx({"gen": 100 / 120, "unattributed": 20 / 120})
    assert window.step_s == pytest.approx(60)


def test_first_step_is_left_out_from_three_on():
    two = [make_step(number, {"gen": 10}) for number in (1, 2)]
    assert len(summarise_window(two).judged) == 2
    three = [*two, make_step(3, {"gen": 10})]
    window = summarise_window(three)
    assert [step.step for step in window.judged] == [2, 3]
    assert [excluded.step for excluded in window.excluded] == [1]


def test_first_step_of_a_window_is_judged_when_the_attempt_began_before():
    steps = [make_step(number, {"gen": 10}) for number in range(10, 15)]
    assert len(summarise_window(steps, {1: 1}).judged) == 5
    assert len(summarise_window(steps).judged) == 4


def test_each_attempt_warms_up():
    steps = [make_step(number, {"gen": 10}) for number in range(1, 5)]
    steps += [make_step(number, {"gen": 10}, attempt=2) for number in range(5, 9)]
    window = summarise_window(steps)
    assert [excluded.step for excluded in window.excluded] == [1, 5]


def test_open_steps_and_steps_without_stages_are_left_out():
    steps = [
        make_step(1, {"gen": 10}, closed=False),
        make_step(2, {}, 10),
        make_step(3, {"gen": 9}),
    ]
    window = summarise_window(steps)
    assert [step.step for step in window.judged] == [3]
    assert [excluded.reason for excluded in window.excluded] == [
        "not closed",
        "no stage was reported",
    ]


def test_single_outlier_is_drawn_in_within_its_stage():
    steps = [make_step(number, {"gen": 10, "update_actor": 5}) for number in range(1, 12)]
    steps[6] = make_step(7, {"gen": 10, "update_actor": 500})
    assert summarise_window(steps).shares["update_actor"] == pytest.approx(1 / 3)


def test_frequent_long_steps_are_no_outliers():
    steps = [
        make_step(number, {"gen": 10, "update_actor": 500 if number % 3 == 0 else 5})
        for number in range(1, 13)
    ]
    assert summarise_window(steps).shares["update_actor"] > 0.9


def test_periodic_cost_counts_with_its_period():
    steps = [
        make_step(number, {"gen": 100}, outside={"testing": 50} if number % 5 == 0 else {})
        for number in range(2, 17)
    ]
    assert summarise_window(steps, {1: 1}).outside_s == pytest.approx({"testing": 10})


def test_periodic_cost_seen_once_uses_the_known_period():
    steps = [
        make_step(number, {"gen": 100}, outside={"testing": 50} if number == 10 else {})
        for number in range(8, 12)
    ]
    assert summarise_window(steps, {1: 1}).outside_s == pytest.approx({"testing": 12.5})
    known = summarise_window(steps, {1: 1}, {"testing": 10})
    assert known.outside_s == pytest.approx({"testing": 5})


def test_periodic_cost_inside_the_step():
    steps = [
        make_step(number, {"gen": 90, "save_checkpoint": 100} if number % 10 == 0 else {"gen": 90})
        for number in range(9, 24)
    ]
    window = summarise_window(steps, {1: 1})
    assert window.shares == pytest.approx({"gen": 0.9, "save_checkpoint": 0.1, "unattributed": 0})


def test_nothing_to_judge():
    window = summarise_window([])
    assert (window.judged, window.shares, window.step_s) == ((), {}, None)
