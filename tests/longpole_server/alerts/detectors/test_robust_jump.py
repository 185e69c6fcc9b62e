"""A figure against its own past: what is a jump, and what only looks like one."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole_server.alerts.detectors.robust_jump import RobustJump
from longpole_server.alerts.rule import Judgement
from support.alert_histories import history_of, points_of

UP = RobustJump("loss", "above", deviations=6.0, min_change=0.05)


def noise(count: int, scale: float = 0.01, seed: int = 1) -> list[float]:
    values = np.random.default_rng(seed).normal(0, scale, count)
    return [float(value) for value in values]


def judge(detector: RobustJump, values: Sequence[float | None]) -> Judgement:
    return detector.judge(history_of(points_of("loss", values)))


def test_a_jump_fires_and_is_over_half_way_back():
    steady = [0.5 + each for each in noise(40)]
    assert judge(UP, [*steady, 0.9]).firing
    assert judge(UP, [*steady, 0.9, 0.9, 0.5]).cleared
    between = judge(UP, [*steady, 0.55])
    assert (between.firing, between.is_judged) == (False, True)


def test_few_steps_are_no_past_and_a_gap_is_left_out():
    assert not judge(UP, [0.5] * 13).is_judged
    assert judge(UP, [0.5] * 14).is_judged
    # The newest three steps before it are no part of the past: a slow jump hides nowhere.
    assert judge(UP, [*[0.5] * 40, 0.9, 0.9, 0.9, 0.9]).firing


def test_a_past_that_leads_there_by_itself_is_no_jump():
    rising = [0.01 * index + each for index, each in enumerate(noise(60, 0.005))]
    assert not judge(UP, list(rising)).firing
    assert judge(UP, [*rising, 1.2]).firing


def test_below_is_the_mirror_of_above():
    down = RobustJump("loss", "below", deviations=6.0, min_change=0.05)
    steady = [0.5 + each for each in noise(40)]
    assert judge(down, [*steady, 0.1]).firing
    assert not judge(down, [*steady, 0.9]).firing


def test_factors_are_judged_by_their_logarithm():
    grad = RobustJump("loss", "above", deviations=8.0, is_ratio=True)
    steady = [math.exp(each) for each in noise(50, 0.3)]
    assert not judge(grad, [*steady, 3.0]).firing
    assert judge(grad, [*steady, 50.0]).firing
    assert judge(grad, [*[0.0, *steady], 50.0]).is_judged, "a zero has no logarithm"


def test_scatter_hides_no_lasting_change():
    lasting = RobustJump("loss", "below", deviations=6.0, min_change=0.05, sustained=6)
    wild = [0.5 + each for each in noise(50, 0.12)]
    low = [0.05 + abs(each) for each in noise(6, 0.02)]
    assert not judge(RobustJump("loss", "below", deviations=6.0), [*wild, *low]).firing
    assert judge(lasting, [*wild, *low]).firing
    assert not judge(lasting, [*wild, *low[:5], 0.4]).firing


def test_what_grows_little_by_little_is_no_jump_where_jumps_are_sudden():
    sudden = RobustJump("loss", "above", deviations=6.0, min_change=0.05, sudden=4)
    grown = [*[0.0] * 60, *[0.015 * index for index in range(17)]]
    assert judge(RobustJump("loss", "above", min_change=0.05), [*grown]).firing
    gradual = judge(sudden, [*grown])
    assert (gradual.firing, gradual.cleared) == (False, False)
    assert gradual.quiet_because == "it came there little by little, not in a jump"
    for count in (1, 2, 3):
        assert judge(sudden, [*[0.0] * 40, *[0.5] * count]).firing


@pytest.mark.parametrize("newest", [None, float("nan"), float("inf")])
def test_what_is_not_reported_or_no_number_is_not_judged(newest: float | None):
    assert not judge(UP, [*[0.5] * 40, newest]).is_judged


_VALUES = st.lists(st.floats(-1e6, 1e6), min_size=20, max_size=40)


@settings(max_examples=40)
@given(_VALUES, st.floats(0.1, 100.0), st.floats(-1e3, 1e3))
def test_neither_unit_nor_origin_changes_what_is_found(
    values: list[float], factor: float, shift: float
):
    detector = RobustJump("loss", "above", deviations=6.0)
    plain = judge(detector, list(values))
    moved = judge(detector, [factor * each + shift for each in values])
    if plain.threshold is None or plain.value is None:
        return
    margin = abs(plain.value - plain.threshold)
    # Closer to the limit than numbers can tell, either answer will do.
    if margin > 1e-6 * max(1.0, max(map(abs, values)), abs(shift) / factor):
        assert moved.firing == plain.firing


def test_a_level_that_the_past_came_to_now_and_then_is_no_jump():
    detector = RobustJump(
        "loss",
        "above",
        deviations=10.0,
        min_change=64.0,
        min_change_of_median=0.5,
        is_ratio=True,
        rare=0.1,
    )
    lengths = [
        702.0,
        661,
        707,
        3163,
        758,
        765,
        723,
        731,
        733,
        677,
        699,
        2888,
        2749,
        715,
        690,
        705,
    ]
    assert not judge(detector, [*lengths, 2704, 797, 2782, 2722, 2997]).firing
    assert judge(detector, [*lengths, 2704, 797, 2782, 2722, 7000]).firing
    assert judge(detector, [700.0 + each for each in noise(30, 20.0)] + [2997.0] * 3).firing
