import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.longtail import measure_long_tail
from support.steps import NS, samples


def test_stopping_early_and_empty_slots():
    tail = measure_long_tail(samples([10.0] * 9 + [100.0]))
    assert tail is not None
    assert tail.stop_at == ((0.80, 90.0), (0.90, 90.0), (0.95, 0.0))
    assert tail.span_s == 100
    assert tail.idle_ratio == pytest.approx(1 - (9 * 10 + 100) / (10 * 100))


def test_wall_clock_times():
    tail = measure_long_tail(samples([10.0] * 99 + [100.0], start_s=1.7e9))
    assert tail is not None
    assert tail.span_s == 100
    assert tail.idle_ratio == pytest.approx(1 - (99 * 10 + 100) / (100 * 100))


def test_equal_samples_waste_nothing():
    tail = measure_long_tail(samples([10.0] * 8))
    assert tail is not None
    assert tail.idle_ratio == 0
    assert all(saved == 0 for _, saved in tail.stop_at)


def test_clipped_to_gen():
    tail = measure_long_tail(samples([10.0, 50.0]), (0, 20 * NS))
    assert tail is not None
    assert tail.span_s == 20


def test_no_samples():
    assert measure_long_tail(samples([])) is None
    assert measure_long_tail(samples([10.0]), (20 * NS, 30 * NS)) is None


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=30))
def test_bounds(durations: list[float]):
    tail = measure_long_tail(samples(durations))
    assert tail is not None
    assert 0 <= tail.idle_ratio < 1
    saved = [seconds for _, seconds in tail.stop_at]
    assert saved == sorted(saved, reverse=True)
    assert all(0 <= seconds <= tail.span_s for seconds in saved)
