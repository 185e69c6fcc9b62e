"""What holds for every step, whatever spans and timers come in."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole.conventions import stages
from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import RunFacts
from longpole_server.model.records import StageSpan
from longpole_server.model.step import Step
from support.steps import NS, inputs, timers

# An hour into an epoch as clocks read it, so that nothing hides behind small numbers.
ORIGIN_NS = 1_780_000_000 * NS
NAMES = (*stages.STAGES, "magic", "gpu_dance")
ROLES = ("controller", "hybrid", "trainer", "rollout", "reward", "")
MODES = (None, "sync", "fully_async", "one_step_off")


def make_span(
    stage: str,
    start_ns: int,
    end_ns: int,
    span_id: str,
    parent: str = "",
    pid: int = 1,
    role: str = "controller",
    *,
    is_loop: bool = False,
    sync_phase: str | None = None,
) -> StageSpan:
    return StageSpan(
        "run",
        1,
        1,
        stage,
        f"rl.{stage}",
        start_ns,
        end_ns,
        trace_id="trace",
        span_id=span_id,
        parent_span_id=parent,
        role=role,
        host=f"node-{pid % 2}",
        pid=pid,
        is_loop=is_loop,
        sync_phase=sync_phase,
    )


@st.composite
def trees(draw: st.DrawFn) -> list[StageSpan]:
    """Draw a tree of windows that mostly nest, and sometimes do all that they must not."""
    length_ns = draw(st.integers(1, 7_200 * NS))
    bounds = (ORIGIN_NS, ORIGIN_NS + length_ns)
    spans: list[StageSpan] = []
    if draw(st.booleans()):
        spans.append(make_span("step", *bounds, "loop", is_loop=True))
    windows: dict[str, tuple[int, int]] = {"loop": bounds}
    for index in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from(sorted(windows)))
        low, high = windows[parent]
        # Beyond its parent on both sides: late ends, early starts.
        slack = draw(st.sampled_from((0, 0, 0, 1, NS, length_ns)))
        points = st.integers(low - slack, high + slack)
        start, end = sorted((draw(points), draw(points)))
        pid = draw(st.sampled_from((1, 1, 1, 1, 2, 3)))
        skew = 0 if pid == 1 else draw(st.integers(-3_600 * NS, 3_600 * NS))
        name = f"s{index}"
        above = draw(st.sampled_from((parent, parent, parent, "", "lost", name)))
        spans.append(
            make_span(
                draw(st.sampled_from(NAMES)),
                start + skew,
                end + skew,
                name if draw(st.integers(0, 9)) else "",
                above,
                pid,
                draw(st.sampled_from(ROLES)),
                sync_phase="transfer" if draw(st.integers(0, 19)) == 0 else None,
            )
        )
        windows[name] = (start, end)
    return [*spans, *draw(_disturbances(spans, length_ns))]


def _disturb(span: StageSpan, how: str, by_ns: int) -> StageSpan:
    match how:
        case "other end":
            return replace(span, end_ns=span.end_ns + by_ns)
        case "moved":
            return replace(span, start_ns=span.start_ns + by_ns, end_ns=span.end_ns + by_ns)
        case "ends before it begins":
            return replace(span, start_ns=span.end_ns + 5, span_id="torn")
        case _:
            return span


def _disturbances(spans: Sequence[StageSpan], length_ns: int) -> st.SearchStrategy[list[StageSpan]]:
    """Return spans sent again, as they were or otherwise, and spans that end before they begin."""
    if not spans:
        return st.just(list[StageSpan]())
    how = st.sampled_from(("again", "other end", "moved", "ends before it begins"))
    again = st.builds(_disturb, st.sampled_from(spans), how, st.integers(-length_ns, length_ns))
    return st.lists(again, max_size=4)


TIMERS = st.dictionaries(
    st.sampled_from(
        [
            *("gen", "reward", "old_log_prob", "ref", "adv", "update_actor", "testing"),
            *("save_checkpoint", "update_weights", "sync_rollout_weights", "magic"),
        ]
    ),
    st.floats(0, 1e4) | st.just(math.nan) | st.just(-1.0),
)
SCALARS = st.just(dict[str, float]()) | st.builds(timers, TIMERS, st.floats(1e-3, 1e5))
SUCCESSORS = st.none() | st.floats(-4_000, 12_000)


def assemble(
    spans: Sequence[StageSpan],
    scalars: dict[str, float] | None = None,
    successor_s: float | None = None,
    mode: str | None = None,
) -> Step:
    given_inputs = inputs(spans, scalars or {}, run=RunFacts("run", "run", mode=mode))
    successor_ns = None if successor_s is None else ORIGIN_NS + round(successor_s * NS)
    return assemble_step(
        replace(given_inputs, successor_start_ns=successor_ns, scalars_ns=ORIGIN_NS)
    )


def assert_exact(step: Step):
    """Check the sum of the parts: to the nanosecond, and in seconds as in shares."""
    if step.duration_s is None:
        assert step.unattributed_s is None
        assert all(stage.share_ratio is None for stage in step.stages)
        return
    assert step.end_ns is not None
    assert step.duration_s == pytest.approx((step.end_ns - step.start_ns) / NS, abs=1e-6)
    if not step.stages:
        assert step.unattributed_s is None
        return
    assert step.unattributed_s is not None
    parts = [*(stage.exclusive_s for stage in step.stages), step.unattributed_s]
    assert min(parts) >= 0
    assert math.fsum(parts) == pytest.approx(step.duration_s, rel=1e-12, abs=1e-9)
    if step.duration_s:
        shares = [stage.share_ratio for stage in step.stages]
        known = [share for share in shares if share is not None]
        assert len(known) == len(shares)
        total = math.fsum(known) + step.unattributed_s / step.duration_s
        assert total == pytest.approx(1, abs=1e-9)
    for stage in step.stages:
        assert stage.exclusive_s <= stage.inclusive_s + 1e-9


@settings(max_examples=150)
@given(trees(), SCALARS, SUCCESSORS, st.sampled_from(MODES))
def test_parts_add_up_to_the_step(
    spans: list[StageSpan], scalars: dict[str, float], successor_s: float | None, mode: str | None
):
    assert_exact(assemble(spans, scalars, successor_s, mode))


@settings(max_examples=100)
@given(trees(), SUCCESSORS)
def test_nanoseconds_of_spans_add_up(spans: list[StageSpan], successor_s: float | None):
    step = assemble(spans, None, successor_s)
    if step.end_ns is not None and step.stages:
        parts = [*(stage.exclusive_s for stage in step.stages), step.unattributed_s or 0.0]
        assert sum(round(part * NS) for part in parts) == step.end_ns - step.start_ns


@settings(max_examples=100)
@given(trees(), st.randoms(use_true_random=False), SUCCESSORS)
def test_order_of_arrival_changes_nothing(
    spans: list[StageSpan], chance: random.Random, successor_s: float | None
):
    shuffled = list(spans)
    chance.shuffle(shuffled)
    assert assemble(shuffled, None, successor_s) == assemble(spans, None, successor_s)


@settings(max_examples=100)
@given(trees(), st.data(), SUCCESSORS)
def test_what_is_sent_twice_counts_once(
    spans: list[StageSpan], data: st.DataObject, successor_s: float | None
):
    again = data.draw(st.lists(st.sampled_from(spans), max_size=5)) if spans else []
    step, twice = (assemble(sent, None, successor_s) for sent in (spans, [*spans, *again]))
    assert twice == step


@settings(max_examples=100)
@given(trees(), st.integers(-(10**15), 10**15), SUCCESSORS)
def test_other_clocks_give_the_same_seconds(
    spans: list[StageSpan], shift_ns: int, successor_s: float | None
):
    moved = [
        replace(span, start_ns=span.start_ns + shift_ns, end_ns=span.end_ns + shift_ns)
        for span in spans
    ]
    moved_successor_s = None if successor_s is None else successor_s + shift_ns / NS
    step, later = assemble(spans, None, successor_s), assemble(moved, None, moved_successor_s)
    assert [(part.stage, part.exclusive_s) for part in step.stages] == [
        (part.stage, pytest.approx(part.exclusive_s, abs=1e-6)) for part in later.stages
    ]


@settings(max_examples=100)
@given(trees(), SUCCESSORS)
def test_a_stage_owns_time_only_while_it_runs(spans: list[StageSpan], successor_s: float | None):
    for stage in assemble(spans, None, successor_s).stages:
        in_windows = sum(end - start for start, end in stage.windows) / NS
        assert stage.exclusive_s <= in_windows + 1e-9
        assert stage.inclusive_s == pytest.approx(in_windows, abs=1e-9)


@settings(max_examples=100)
@given(TIMERS, st.floats(1e-3, 1e5), st.floats(1, 100))
def test_timers_scale(seconds: dict[str, float], step_s: float, factor: float):
    """Seconds in another unit give the same shares."""
    step = assemble([], timers(seconds, step_s))
    scaled = {name: value * factor for name, value in seconds.items()}
    larger = assemble([], timers(scaled, step_s * factor))
    assert_exact(step)
    assert [(part.stage, part.share_ratio) for part in step.stages] == [
        (part.stage, pytest.approx(part.share_ratio, rel=1e-6, abs=1e-9)) for part in larger.stages
    ]
