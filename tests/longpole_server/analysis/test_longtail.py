from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.longtail import (
    describe_spread,
    measure_long_tail,
    stop_replicas,
)
from longpole_server.model.facts import TrajectoryFacts
from support.steps import NS, samples


def test_stopping_early_and_empty_slots():
    tail = measure_long_tail(samples([10.0] * 9 + [100.0]))
    assert tail is not None
    assert tail.stop_at == ((0.80, 90.0), (0.90, 90.0), (0.95, 0.0))
    assert tail.span_s == tail.window_s == 100
    assert tail.most_running == 10
    assert tail.idle_ratio == pytest.approx(1 - (9 * 10 + 100) / (10 * 100))
    assert tail.waste_gpu_s(8) == pytest.approx(tail.idle_ratio * 100 * 8)


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


def test_the_end_is_that_of_the_last_kept_sample():
    tail = measure_long_tail(samples([float(seconds) for seconds in range(1, 61)]))
    assert tail is not None
    assert [stop.samples_left for stop in tail.stops] == [12, 6, 3]
    assert tail.stop_at == ((0.80, 12.0), (0.90, 6.0), (0.95, 3.0))


def test_clipped_to_gen():
    tail = measure_long_tail(samples([10.0, 50.0]), [(0, 20 * NS)])
    assert tail is not None
    assert tail.span_s == 20


def test_gen_before_the_first_and_after_the_last_sample_is_wasted():
    tail = measure_long_tail(samples([10.0, 10.0], start_s=5), [(0, 20 * NS)])
    assert tail is not None
    assert (tail.span_s, tail.window_s) == (10, 20)
    assert tail.idle_ratio == pytest.approx(0.5)


def test_time_between_the_windows_of_gen_does_not_count():
    tail = measure_long_tail(samples([30.0, 30.0]), [(0, 10 * NS), (20 * NS, 30 * NS)])
    assert tail is not None
    assert (tail.span_s, tail.window_s) == (20, 20)
    assert tail.idle_ratio == pytest.approx(0)


def test_a_paused_sample_does_not_run():
    tail = measure_long_tail(replace(samples([10.0, 10.0]), paused_s=[5.0, None]))
    assert tail is not None
    assert tail.idle_ratio == pytest.approx(0.25)


def test_a_pause_lies_outside_gen_as_far_as_the_sample_does():
    begun_before = replace(samples([30.0, 30.0]), paused_s=[18.0, 23.0])
    tail = measure_long_tail(begun_before, [(20 * NS, 30 * NS)])
    assert tail is not None
    assert tail.idle_ratio == pytest.approx((0 + 3) / 20)


def test_tokens_and_groups_that_an_early_stop_leaves():
    many = replace(
        samples([10.0] * 9 + [100.0], [100] * 9 + [1000]),
        group_ids=["a"] * 5 + ["b"] * 5,
    )
    tail = measure_long_tail(many)
    assert tail is not None
    stop = tail.stops[0]
    assert stop.samples_left == 1
    assert stop.tokens_left_ratio == pytest.approx(1000 / 1900)
    assert stop.tokens_begun_ratio == pytest.approx(100 / 1900)
    assert stop.groups_left_ratio == 0.5
    assert tail.stops[2].groups_left_ratio == 0


def test_what_nobody_reports_stays_unknown():
    tail = measure_long_tail(samples([1.0, 2.0]))
    assert tail is not None
    assert tail.stops[0].tokens_left_ratio is None
    assert tail.stops[0].groups_left_ratio is None
    assert describe_spread([None, None]) is None
    assert describe_spread([]) is None


def test_each_replica_stops_at_its_own_share():
    found = stop_replicas(
        samples([1.0, 2.0, 3.0, 4.0, 5.0] * 2, replicas=["a"] * 5 + ["b"] * 4 + [None])
    )
    assert [(stop.replica, stop.num_samples, stop.end_s) for stop in found] == [
        ("a", 5, 5.0),
        ("b", 4, 4.0),
    ]
    assert found[0].stop_at == ((0.80, 1.0), (0.90, 0.0), (0.95, 0.0))


def test_spread_of_what_is_known():
    spread = describe_spread([float(value) for value in range(101)] + [None])
    assert spread is not None
    assert (spread.count, spread.mean, spread.p50, spread.p95, spread.largest) == (
        101,
        50,
        50,
        95,
        100,
    )


def test_no_samples():
    assert measure_long_tail(samples([])) is None
    assert measure_long_tail(samples([10.0]), [(20 * NS, 30 * NS)]) is None


@st.composite
def running(draw: st.DrawFn) -> TrajectoryFacts:
    """Samples on a coarse grid of seconds, so that a sum over seconds is exact."""
    windows = draw(
        st.lists(
            st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 25)),
            min_size=1,
            max_size=12,
        )
    )
    many = samples([float(length) for _, length, _ in windows])
    return replace(
        many,
        start_ns=[start * NS for start, _, _ in windows],
        end_ns=[(start + length) * NS for start, length, _ in windows],
        paused_s=[float(min(paused, length)) for _, length, paused in windows],
    )


@given(
    running(),
    st.lists(st.integers(0, 50), min_size=2, max_size=6, unique=True).map(sorted),
)
def test_against_a_sum_over_seconds(many: TrajectoryFacts, edges: list[int]):
    windows = list(pairwise(edges))[::2]
    in_gen = [second for first, last in windows for second in range(first, last)]
    clipped = [
        {second for second in in_gen if start <= second * NS < end}
        for start, end in zip(many.start_ns, many.end_ns, strict=True)
    ]
    tail = measure_long_tail(many, [(first * NS, last * NS) for first, last in windows])
    if not any(clipped):
        assert tail is None
        return
    assert tail is not None
    active = [
        len(seconds) - max(0.0, (paused or 0.0) - (length - len(seconds)))
        for seconds, paused, length in zip(clipped, many.paused_s, many.durations_s, strict=True)
        if seconds
    ]
    most = max(sum(second in seconds for seconds in clipped) for second in in_gen)
    assert tail.most_running == most
    assert tail.window_s == pytest.approx(len(in_gen))
    assert tail.idle_ratio == pytest.approx(1 - sum(active) / (most * len(in_gen)), abs=1e-9)


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=30))
def test_bounds(durations: list[float]):
    tail = measure_long_tail(samples(durations))
    assert tail is not None
    assert 0 <= tail.idle_ratio < 1
    saved = [seconds for _, seconds in tail.stop_at]
    assert saved == sorted(saved, reverse=True)
    assert all(0 <= seconds <= tail.span_s for seconds in saved)
    kept = sorted(durations)[: -(-len(durations) * 4 // 5)]
    assert tail.stop_at[0][1] == pytest.approx(max(durations) - kept[-1], abs=1e-6)
