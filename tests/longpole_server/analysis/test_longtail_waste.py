from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.longtail import measure_long_tail
from longpole_server.analysis.longtail_waste import (
    WasteShare,
    break_down_waste,
    count_rollout_gpus,
)
from longpole_server.model.facts import GpuWindow, RunFacts
from support.steps import NS, facts, samples


def seconds_of(shares: Sequence[WasteShare]) -> dict[str | None, object]:
    return {share.id: pytest.approx(share.seconds) for share in shares}


def test_the_waste_waits_for_who_still_runs():
    many = replace(
        samples([10.0, 10.0, 20.0, 40.0], replicas=["a", "a", "a", "b"]),
        group_ids=["x", "y", "x", "y"],
    )
    waste = break_down_waste(many, [(0, 50 * NS)])
    assert waste is not None
    # 10 to 20 s: half is empty, and two run. 20 to 40 s: three quarters, for the last. Then none.
    assert waste.seconds == pytest.approx(5 + 15 + 10)
    assert waste.unclaimed_s == pytest.approx(10)
    assert seconds_of(waste.by_replica) == {"b": 17.5, "a": 2.5}
    assert seconds_of(waste.by_group) == {"y": 17.5, "x": 2.5}
    assert waste.by_replica[0].ratio == pytest.approx(17.5 / 30)
    assert [share.num_samples for share in waste.by_replica] == [1, 3]
    assert waste.by_activity == ()


def test_activities_share_as_a_sample_spends_its_time():
    many = replace(
        samples([10.0, 40.0], tool_s=[None, 30.0], score_s=[None, 4.0]),
        generate_s=[10.0, 4.0],
        tools=[None, "python"],
    )
    waste = break_down_waste(many)
    assert waste is not None
    assert waste.seconds == pytest.approx(15)
    assert seconds_of(waste.by_activity) == {
        "python": 15 * 0.75,
        "generate": 15 * 0.1,
        "score": 15 * 0.1,
        "other": 15 * 0.05,
    }


def test_parallel_calls_count_once_in_all():
    many = replace(samples([10.0, 40.0], tool_s=[None, 80.0]), generate_s=[10.0, 20.0])
    waste = break_down_waste(many)
    assert waste is not None
    assert seconds_of(waste.by_activity) == {"tool": 15 * 0.8, "generate": 15 * 0.2}


def test_nothing_to_break_down():
    assert break_down_waste(samples([])) is None
    equal = break_down_waste(samples([5.0, 5.0], replicas=["a", "b"]))
    assert equal is not None
    assert equal.seconds == 0
    assert [share.ratio for share in equal.by_replica] == [0, 0]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),
            st.integers(1, 30),
            st.integers(0, 30),
            st.sampled_from(["a", "b", None]),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_parts_add_up_to_the_whole(rows: list[tuple[int, int, int, str | None]]):
    many = replace(
        samples([float(length) for _, length, _, _ in rows], replicas=[row[3] for row in rows]),
        start_ns=[start * NS for start, _, _, _ in rows],
        end_ns=[(start + length) * NS for start, length, _, _ in rows],
        paused_s=[float(min(paused, length)) for _, length, paused, _ in rows],
        generate_s=[float(length) / 2 for _, length, _, _ in rows],
        group_ids=["one"] * len(rows),
    )
    windows = [(5 * NS, 20 * NS), (25 * NS, 60 * NS)]
    waste, tail = break_down_waste(many, windows), measure_long_tail(many, windows)
    if waste is None or tail is None:
        assert waste is tail is None
        return
    assert waste.seconds == pytest.approx(tail.idle_ratio * tail.window_s, abs=1e-6)
    for shares in (waste.by_replica, waste.by_group, waste.by_activity):
        if shares:
            total = sum(share.seconds for share in shares) + waste.unclaimed_s
            assert total == pytest.approx(waste.seconds, abs=1e-6)
            assert all(share.seconds >= 0 for share in shares)


def test_gpus_of_the_rollout():
    step = facts({"gen": 10.0, "update_actor": 5.0})
    shared = count_rollout_gpus(RunFacts("run", "run", gpu_count=16), step, "sync")
    assert (shared.count, shared.reason) == (16, None)
    unknown = count_rollout_gpus(RunFacts("run", "run"), step, None)
    assert unknown.count is None
    assert unknown.reason
    windows = [GpuWindow("gen", "rollout", 4, 10.0), GpuWindow("update_actor", "trainer", 12, 5.0)]
    apart = replace(step, gpu_windows=windows)
    run = RunFacts("run", "run", gpu_count=16)
    assert count_rollout_gpus(run, apart, "fully_async").count == 4
    assert count_rollout_gpus(run, step, "fully_async").count is None
