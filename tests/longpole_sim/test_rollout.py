import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_sim.plan import PartPlan
from longpole_sim.rollout import Engine, Request, running_changes, serve

ENGINE = Engine(num_gpus=2)


def make_request(turns: list[int]) -> Request:
    return Request(
        turn_tokens=tuple(turns),
        tool_s=(0.5,) * (len(turns) - 1),
        tool_name="sandbox",
        score_s=0.01,
        score_name="check",
    )


requests = st.lists(
    st.lists(st.integers(1, 600), min_size=1, max_size=3).map(make_request),
    min_size=1,
    max_size=20,
)


@given(requests)
def test_windows_of_a_sample_follow_each_other(batch: list[Request]) -> None:
    for request, parts in zip(batch, serve(ENGINE, batch, 10.0), strict=True):
        assert parts[0].start_s == 10.0
        for before, after in itertools.pairwise(parts):
            assert after.start_s == pytest.approx(before.end_s)
        kinds = [part.kind for part in parts]
        turns = len(request.turn_tokens)
        assert kinds == ["queue", "generate", *["tool", "generate"] * (turns - 1), "score"]


@given(requests)
def test_nobody_decodes_faster_than_alone_or_slower_than_in_a_full_batch(
    batch: list[Request],
) -> None:
    fastest, slowest = ENGINE.tokens_per_s(1), ENGINE.tokens_per_s(len(batch))
    for request, parts in zip(batch, serve(ENGINE, batch, 0.0), strict=True):
        generated = [part for part in parts if part.kind == "generate"]
        for tokens, part in zip(request.turn_tokens, generated, strict=True):
            seconds = part.end_s - part.start_s
            assert tokens / fastest <= seconds * 1.000001
            assert seconds <= tokens / slowest * 1.000001


@given(requests)
def test_running_sequences_start_and_end_at_none(batch: list[Request]) -> None:
    changes = running_changes(serve(ENGINE, batch, 0.0))
    counts = [count for _, count in changes]
    assert counts[-1] == 0
    assert min(counts) >= 0
    assert 1 <= max(counts) <= len(batch)
    assert [when for when, _ in changes] == sorted(when for when, _ in changes)


def test_longer_answers_end_later() -> None:
    parts = serve(ENGINE, [Request((100,)), Request((200,)), Request((50,))], 0.0)
    ends = [windows[-1].end_s for windows in parts]
    assert ends[2] < ends[0] < ends[1]


def test_a_slower_engine_takes_proportionally_longer() -> None:
    batch = [Request((100,))]
    fast = serve(Engine(1, 1.0), batch, 0.0)[0][-1]
    slow = serve(Engine(1, 0.5), batch, 0.0)[0][-1]
    assert slow.end_s - slow.start_s == pytest.approx(2 * (fast.end_s - fast.start_s))


def running_at_most(parts: list[list[PartPlan]]) -> int:
    return max(count for _, count in running_changes(parts))


@given(requests, st.integers(1, 6))
def test_a_cap_is_never_exceeded_and_everything_is_served(batch: list[Request], cap: int) -> None:
    parts = serve(Engine(2, max_running=cap), batch, 0.0)
    assert running_at_most(parts) <= cap
    for request, windows in zip(batch, parts, strict=True):
        generated = sum(part.tokens for part in windows if part.kind == "generate")
        assert generated == pytest.approx(sum(request.turn_tokens))


@given(requests, st.floats(300.0, 4_000.0))
def test_a_small_cache_throws_samples_out_and_serves_them_all_the_same(
    batch: list[Request], room: float
) -> None:
    parts = serve(Engine(2, kv_tokens=room), batch, 0.0)
    for request, windows in zip(batch, parts, strict=True):
        generated = sum(part.tokens for part in windows if part.kind == "generate")
        assert generated == pytest.approx(sum(request.turn_tokens))
        for before, after in itertools.pairwise(windows):
            assert after.start_s == pytest.approx(before.end_s)


def test_a_full_cache_preempts_the_sample_that_came_last() -> None:
    batch = [Request((400,), prompt_tokens=100.0) for _ in range(4)]
    parts = serve(Engine(2, kv_tokens=1_200.0), batch, 0.0)
    preempted = [any(part.name == "preempted" for part in windows) for windows in parts]
    assert preempted[-1]
    assert not preempted[0]


def test_unread_prompts_delay_the_samples_behind_them() -> None:
    quick = serve(Engine(1), [Request((10,)), Request((10,))], 0.0)
    batch = [Request((10,), prefill_tokens=54_000.0), Request((10,))]
    slow = serve(Engine(1, prefill_tokens_per_s=54_000.0), batch, 0.0)
    assert slow[1][0].end_s == pytest.approx(quick[1][0].end_s + 1.0)
