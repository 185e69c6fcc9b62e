import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.alerts.detectors.trends import (
    adjust_holm,
    fit_slope,
    is_in_steps,
    measure_shift,
    measure_trend,
    weigh_line,
)


def test_a_line_has_its_slope_whatever_a_few_points_say():
    steps = list(range(20))
    values = [0.5 * step for step in steps]
    values[3], values[12] = 100.0, -100.0
    assert fit_slope(steps, values) == pytest.approx(0.5)
    trend = measure_trend(steps, values)
    assert trend.slope == pytest.approx(0.5)
    assert trend.rise == pytest.approx(9.5)


def test_a_flat_series_has_no_trend():
    trend = measure_trend(range(10), [0.3] * 10)
    assert (trend.slope, trend.p_value) == (0.0, 1.0)


def test_noise_is_found_to_rise_as_rarely_as_it_says():
    rng = np.random.default_rng(1)
    p_values = [measure_trend(range(15), rng.normal(size=15).tolist()).p_value for _ in range(300)]
    assert np.mean(np.array(p_values) < 0.05) < 0.08


def test_a_series_that_remembers_is_not_taken_for_as_many_points():
    rng = np.random.default_rng(2)

    def wander() -> list[float]:
        values = [0.0]
        for _ in range(39):
            values.append(0.9 * values[-1] + float(rng.normal()))
        return values

    p_values = np.array([measure_trend(range(40), wander()).p_value for _ in range(200)])
    assert np.mean(p_values < 1e-4) < 0.03


def test_holm_as_published():
    adjusted = adjust_holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06})


@given(st.dictionaries(st.integers(0, 30), st.floats(0, 1), max_size=20))
def test_adjusted_values_keep_their_order_and_never_fall(p_values: dict[int, float]):
    adjusted = adjust_holm(p_values)
    assert all(p_values[key] <= adjusted[key] <= 1.0 for key in p_values)
    ordered = sorted(p_values, key=lambda key: p_values[key])
    assert sorted(adjusted.values()) == [adjusted[key] for key in ordered]


def test_a_shift():
    assert measure_shift([1.0, 2.0, 1.5] * 6, [4.0, 5.0] * 5) < 1e-4
    assert measure_shift([1.0] * 20, [1.0] * 10) == 1.0


def test_what_was_kept_twice_is_told_from_what_rises():
    rng = np.random.default_rng(3)
    noise = rng.normal(0, 0.004, 60)
    line = 0.3 + 0.003 * np.arange(60) + noise
    kept_twice = 0.3 + 0.06 * (np.arange(60) >= 8) + 0.06 * (np.arange(60) >= 35) + noise
    stairs = 0.3 + 0.02 * (np.arange(60) // 7) + noise
    assert is_in_steps(kept_twice.tolist())
    assert not is_in_steps(line.tolist())
    assert not is_in_steps(stairs.tolist())
    assert not is_in_steps([0.1 * number for number in range(10)])


def test_a_line_weighs_more_than_a_walk():
    rng = np.random.default_rng(3)
    steps = np.arange(30)
    walks = [weigh_line(np.cumsum(rng.normal(size=30)).tolist()) for _ in range(200)]
    lines = [weigh_line((0.5 * steps + rng.normal(size=30)).tolist()) for _ in range(50)]
    assert np.mean(np.array(walks) > 20) < 0.02
    assert min(lines) > 20


def test_how_it_wandered_before_tells_how_far_it_wanders():
    rising = [0.01 * step for step in range(10)]
    still = [0.001 * (step % 2) for step in range(30)]
    restless = [0.05 * np.sin(step / 2) for step in range(30)]
    assert weigh_line(rising, still) > 50
    assert weigh_line(rising, restless) < 10
    assert weigh_line([0.3] * 10, [0.3] * 10) == 0.0
