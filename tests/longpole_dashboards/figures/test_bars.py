import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.conventions import stages
from longpole_dashboards.figures.bars import make_bars, order_stages
from support.dashboard_steps import S, make_open_stage, make_step


def test_one_bar_a_step_adds_up_to_its_seconds() -> None:
    step = make_step(3, {"gen": 50.0, "reward": 5.0}, unattributed_s=2.0)
    (bar,) = make_bars([step], 100)
    assert sum(bar.seconds.values()) == pytest.approx(57.0)
    assert bar.duration_s == pytest.approx(57.0)
    assert bar.label == "step 3"


def test_a_stage_nobody_reported_has_no_part() -> None:
    (bar,) = make_bars([make_step(1, {"gen": 50.0})], 100)
    assert "reward" not in bar.seconds


@given(st.integers(1, 400), st.integers(1, 60))
def test_thinned_bars_keep_the_mean_and_every_step(count: int, max_bars: int) -> None:
    steps = [make_step(n, {"gen": float(10 + n)}) for n in range(1, count + 1)]
    bars = make_bars(steps, max_bars)
    assert len(bars) <= max_bars + 1
    covered = [n for bar in bars for n in range(bar.first_step, bar.last_step + 1)]
    assert covered == list(range(1, count + 1))
    weights = [bar.last_step - bar.first_step + 1 for bar in bars]
    total = sum(bar.seconds["gen"] * weight for bar, weight in zip(bars, weights, strict=True))
    assert total == pytest.approx(sum(10 + n for n in range(1, count + 1)))


def test_the_longest_of_many_steps_is_named_with_what_made_it_so() -> None:
    steps = [make_step(n, {"gen": 50.0, "reward": 5.0}) for n in range(1, 101)]
    steps[36] = make_step(37, {"gen": 52.0, "reward": 95.0})
    bar = make_bars(steps, 4)[1]
    assert (bar.first_step, bar.last_step) == (26, 50)
    assert (bar.longest_step, bar.longest_stage) == (37, "reward")
    assert bar.longest_s == pytest.approx(148.0)


def test_attempts_are_never_mixed_in_one_bar() -> None:
    steps = [make_step(n, attempt=1 if n < 6 else 2) for n in range(1, 11)]
    bars = make_bars(steps, 3)
    assert all((bar.last_step < 6) == (bar.attempt == 1) for bar in bars)


def test_the_open_step_stands_alone_and_grows_with_its_open_stage() -> None:
    closed = [make_step(n) for n in range(1, 9)]
    running = make_step(9, {"prepare": 2.0}, is_open=True)
    now_ns = running.start_ns + 32 * S
    open_stage = make_open_stage(9, "gen", running.start_ns + 2 * S)
    bar = make_bars([*closed, running], 2, open_stage, now_ns)[-1]
    assert (bar.first_step, bar.last_step, bar.is_open) == (9, 9, True)
    assert bar.seconds == {"prepare": 2.0, "gen": pytest.approx(30.0)}
    assert "so far" in bar.label


def test_stages_are_stacked_in_the_order_they_run() -> None:
    names = {stages.UPDATE_ACTOR, stages.GEN, "my_stage", stages.UNATTRIBUTED, stages.PREPARE}
    assert order_stages(names) == [
        stages.PREPARE,
        stages.GEN,
        stages.UPDATE_ACTOR,
        "my_stage",
        stages.UNATTRIBUTED,
    ]
