import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.window import Cycle, Cycles, summarise_window
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
    assert ([*window.judged], window.shares, window.step_s) == ([], {}, None)


def find_cycles(steps: list[Step]) -> Cycles:
    return summarise_window(steps, {}).cycles


def validated(first: int, count: int, period: int = 10, *, inside: bool = False) -> list[Step]:
    """Return steps of 100 s with a validation of 50 s at every multiple of a period."""
    validation = {"testing": 50.0}
    return [
        make_step(
            number,
            {"gen": 70.0, "update_actor": 30.0}
            | (validation if inside and number % period == 0 else {}),
            outside=validation if not inside and number % period == 0 else {},
        )
        for number in range(first, first + count)
    ]


@pytest.mark.parametrize("first", range(101, 111))
@pytest.mark.parametrize("count", [2, 7, 20, 23])
@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
class TestValidationEveryTenSteps:
    def test_as_earlier_steps_show_it(self, first: int, count: int, inside: bool):
        cycles = find_cycles(validated(61, 40, inside=inside))
        window = summarise_window(validated(first, count, inside=inside), {1: 1}, None, cycles)
        seconds = window.stage_s if inside else window.outside_s
        assert seconds["testing"] == pytest.approx(5)
        assert window.shares["gen"] == pytest.approx(70 / 105 if inside else 0.7)
        assert math.fsum(window.shares.values()) == pytest.approx(1)

    def test_from_the_window_alone(self, first: int, count: int, inside: bool):
        steps = validated(first, count, inside=inside)
        window = summarise_window(steps, {1: 1})
        seconds = (window.stage_s if inside else window.outside_s).get("testing", 0.0)
        if count >= 20:
            assert seconds == pytest.approx(5)
        else:
            assert seconds in (0.0, pytest.approx(50 / count))

    def test_with_the_period_that_the_run_states(self, first: int, count: int, inside: bool):
        steps = validated(first, count, inside=inside)
        window = summarise_window(steps, {1: 1}, {"testing": 10.0})
        seconds = (window.stage_s if inside else window.outside_s).get("testing", 0.0)
        is_seen = any(step.step % 10 == 0 for step in steps)
        assert seconds == pytest.approx(5 if is_seen else 0)


def test_one_step_shows_no_validation_that_it_did_not_run():
    cycles = Cycles(outside={"testing": Cycle(10, 50)})
    assert summarise_window(validated(103, 1), {1: 1}, None, cycles).outside_s == {}


def test_validation_that_was_switched_off_is_not_made_up():
    cycles = Cycles(outside={"testing": Cycle(10, 50)})
    steps = [make_step(number, {"gen": 100}) for number in range(101, 113)]
    assert summarise_window(steps, {1: 1}, None, cycles).outside_s.get("testing", 0) == 0


def test_a_stated_period_that_contradicts_what_was_seen_does_not_count():
    steps = validated(101, 20, period=2)
    assert summarise_window(steps, {1: 1}, {"testing": 100.0}).outside_s["testing"] == 25


def test_two_checkpoints_in_a_row_do_not_come_at_every_step():
    steps = [
        make_step(number, {"gen": 100}, outside={"save_checkpoint": 60} if number > 39 else {})
        for number in range(22, 42)
    ]
    assert summarise_window(steps, {1: 1}).outside_s["save_checkpoint"] == pytest.approx(6)


def test_one_slow_checkpoint_among_several_is_drawn_in():
    steps = [
        make_step(
            number,
            {"gen": 100},
            outside={"save_checkpoint": 3_000 if number == 30 else 20} if number % 5 == 0 else {},
        )
        for number in range(11, 41)
    ]
    assert summarise_window(steps, {1: 1}).outside_s["save_checkpoint"] == pytest.approx(4)


def test_cycles_of_steps_inside_and_between():
    steps = validated(1, 40)
    assert find_cycles(steps) == Cycles({}, {"testing": Cycle(10, 50)})
    ended = [*steps[:20], *(replace(step, outside=()) for step in steps[20:])]
    assert find_cycles(ended) == Cycles({}, {"testing": Cycle(20, 50)})
    assert find_cycles(validated(1, 40, inside=True)).inside == {"testing": Cycle(10, 50)}
    assert find_cycles([]) == Cycles()


def test_untimed_work_every_few_steps_is_no_outlier():
    steps = [
        make_step(number, {"gen": 100}, 200 if number % 10 == 0 else 1)
        for number in range(101, 701)
    ]
    assert summarise_window(steps, {1: 1}).stage_s["unattributed"] == pytest.approx(20.9)
    rare = [make_step(n, {"gen": 100}, 2_000 if n % 100 == 0 else 1) for n in range(101, 1001)]
    assert summarise_window(rare, {1: 1}).stage_s["unattributed"] == pytest.approx(20.99)


def test_stage_that_some_steps_lack_counts_where_it_is():
    steps = [
        make_step(number, {"gen": 60} | ({"update_critic": 20} if number % 2 else {}))
        for number in range(2, 22)
    ]
    assert summarise_window(steps, {1: 1}).stage_s == pytest.approx(
        {"gen": 60, "update_critic": 10, "unattributed": 0}
    )


@pytest.mark.parametrize("count", [3, 4, 7, 20, 120])
@pytest.mark.parametrize("stage", ["gen", "update_weights"])
def test_one_straggler_does_not_flip_the_window(count: int, stage: str):
    usual = {"gen": 20.0, "update_actor": 60.0, "update_weights": 3.0}
    for place in range(count):
        steps = [make_step(number, usual, 2) for number in range(101, 101 + count)]
        steps[place] = make_step(101 + place, usual | {stage: 5_000.0}, 2)
        window = summarise_window(steps, {1: 1})
        assert window.shares["update_actor"] == pytest.approx(60 / 85)
        assert len(window.judged) == count


def test_straggler_between_the_steps_is_drawn_in():
    steps = [
        make_step(number, {"gen": 60}, outside={"update_weights": 900 if number == 109 else 4})
        for number in range(101, 121)
    ]
    assert summarise_window(steps, {1: 1}).outside_s == {"update_weights": 4}


def test_resumed_run_with_open_and_torn_steps():
    steps = [make_step(number, {"gen": 60}) for number in range(1, 6)]
    # The attempt died in step 6; the next one resumes at 5 and is in step 9 now.
    steps = [*steps[:4], *(make_step(number, {"gen": 80}, attempt=2) for number in range(5, 9))]
    steps.append(make_step(9, {"gen": 10}, attempt=2, closed=False))
    steps.append(make_step(6, {"gen": 3}, closed=False))
    window = summarise_window(steps)
    assert [(step.attempt, step.step) for step in window.judged] == [
        *((1, number) for number in (2, 3, 4)),
        *((2, number) for number in (6, 7, 8)),
    ]
    assert window.stage_s["gen"] == pytest.approx(70)


SECONDS = st.floats(0.01, 1_000)
NAMES: Sequence[str] = (
    "gen",
    "update_actor",
    "ref",
    "testing",
    "save_checkpoint",
    "update_weights",
)


@st.composite
def windows(draw: st.DrawFn) -> list[Step]:
    steps: list[Step] = []
    number = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(0, 30))):
        parts = draw(st.dictionaries(st.sampled_from(NAMES), SECONDS, max_size=5))
        outside = draw(st.dictionaries(st.sampled_from(NAMES[3:]), SECONDS, max_size=2))
        steps.append(
            make_step(
                number,
                parts,
                draw(SECONDS),
                attempt=1 + len(steps) // 15,
                outside=outside,
                closed=draw(st.integers(0, 9)) > 0,
            )
        )
        number += draw(st.sampled_from((1, 1, 1, 2, 9)))
    return steps


CYCLES = st.dictionaries(
    st.sampled_from(("testing", "save_checkpoint")), st.builds(Cycle, st.floats(1, 60), SECONDS)
)


@given(windows(), st.builds(Cycles, CYCLES, CYCLES))
def test_any_window_adds_up(steps: list[Step], cycles: Cycles):
    window = summarise_window(steps, None, None, cycles)
    assert len(window.judged) + len(window.excluded) == len(steps)
    if window.step_s is None:
        assert not window.judged
        return
    assert math.fsum(window.shares.values()) == pytest.approx(1, abs=1e-9)
    assert math.fsum(window.stage_s.values()) == pytest.approx(window.step_s)
    assert min((*window.shares.values(), *window.outside_s.values())) >= 0
    for stage, seconds in window.stage_s.items():
        seen = [part.exclusive_s for step in window.judged for part in step.stages]
        seen += [step.unattributed_s or 0.0 for step in window.judged]
        seen += [cycle.seconds for cycle in cycles.inside.values()]
        assert seconds <= 2 * max(seen), stage


@given(windows())
def test_known_cycles_of_the_same_steps_change_little(steps: list[Step]):
    closed = [step for step in steps if step.duration_s]
    cycles = find_cycles(closed)
    for found in (cycles.inside, cycles.outside):
        assert all(cycle.period > 0 and cycle.seconds > 0 for cycle in found.values())


@given(
    st.integers(5, 40),
    st.data(),
    st.floats(10, 1e6),
    st.sampled_from(["gen", "update_actor", "update_weights"]),
)
def test_no_single_step_moves_a_window_far(
    count: int, data: st.DataObject, seconds: float, stage: str
):
    usual = {"gen": 60.0, "update_actor": 30.0, "update_weights": 5.0}
    jitter = st.floats(0.95, 1.05)
    steps = [
        make_step(number, {name: value * data.draw(jitter) for name, value in usual.items()})
        for number in range(101, 101 + count)
    ]
    before = summarise_window(steps, {1: 1}).shares
    place = data.draw(st.integers(0, count - 1))
    steps[place] = make_step(101 + place, usual | {stage: seconds})
    after = summarise_window(steps, {1: 1}).shares
    for name, share in before.items():
        assert after[name] == pytest.approx(share, abs=0.10)
