"""A table of steps says what its steps say."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole.conventions import stages
from longpole_server.analysis.step_table import StepTable
from longpole_server.model.step import Confidence, Note, OutsideStage, StageTime, Step

CONFIDENCES: list[Confidence | None] = [None, "high"]
_SECONDS = st.floats(0.001, 1000.0)
_STAGES = st.dictionaries(
    st.sampled_from([*stages.STAGES][:6]), st.tuples(_SECONDS, st.sampled_from(["span", "scalar"]))
)


@st.composite
def a_step(draw: st.DrawFn, number: int = 1) -> Step:
    is_open = draw(st.booleans())
    ledger = {} if is_open else draw(_STAGES)
    rest_s = draw(st.none() | _SECONDS)
    total_s = sum(seconds for seconds, _ in ledger.values()) + (rest_s or 0.0)
    duration_s = None if is_open or not total_s else total_s
    return Step(
        run_id="run",
        step=number,
        attempt=draw(st.integers(1, 3)),
        start_ns=number * 10**9,
        end_ns=None if is_open else number * 10**9 + 5,
        duration_s=duration_s,
        closed_by=None if is_open else "loop",
        stages=tuple(
            StageTime(
                name,
                seconds,
                seconds + 1.0,
                seconds / duration_s if duration_s else None,
                None,
                None,
                stages.STAGES[name].includes,
                "span" if source == "span" else "scalar",
            )
            for name, (seconds, source) in ledger.items()
        ),
        unattributed_s=rest_s,
        outside=draw(st.sampled_from([(), (OutsideStage("testing", 3.5),)])),
        tokens_total=draw(st.none() | st.integers(0, 10**9)),
        mfu_actor=draw(st.none() | st.floats(0, 2)),
        gpu_count=draw(st.none() | st.integers(1, 8)),
        verdict=draw(st.none() | st.sampled_from(["balanced", "rollout.tool"])),
        confidence=draw(st.sampled_from(CONFIDENCES)),
        notes=draw(st.sampled_from([(), (Note("x", "info", "y"),)])),
    )


_STEPS = st.integers(0, 8).flatmap(lambda n: st.tuples(*(a_step(i) for i in range(1, n + 1))))


def _bare(step: Step) -> Step:
    """Stages in one order, as a table of columns cannot know each step's own."""
    return replace(step, stages=tuple(sorted(step.stages, key=lambda stage: stage.stage)))


@given(_STEPS)
def test_columns_give_the_steps_back(steps: tuple[Step, ...]):
    table = StepTable.of(steps)
    assert [*map(_bare, StepTable(table.columns))] == [*map(_bare, steps)]
    assert table == steps


@given(_STEPS)
def test_shares_are_those_of_the_steps(steps: tuple[Step, ...]):
    for step, shares in zip(steps, StepTable.of(steps).list_shares(), strict=True):
        expected = {stage.stage: stage.exclusive_s for stage in step.stages}
        expected[stages.UNATTRIBUTED] = step.unattributed_s or 0.0
        total_s = step.duration_s
        assert shares == (
            {name: seconds / total_s for name, seconds in expected.items()} if total_s else {}
        )


@given(_STEPS, st.data())
def test_some_rows_of_two_tables_put_together(steps: tuple[Step, ...], data: st.DataObject):
    cut = data.draw(st.integers(0, len(steps)))
    first, second = StepTable.of(steps[:cut]), StepTable.of(steps[cut:])
    if not steps[:cut] or not steps[cut:]:
        return
    whole = StepTable(first.columns.extended(second.columns))
    rows = data.draw(st.lists(st.integers(0, len(steps) - 1)))
    chosen = whole.take(np.array(rows, dtype=np.intp))
    assert [*map(_bare, chosen)] == [_bare(steps[row]) for row in rows]


def test_what_is_not_known_is_left_out():
    step = Step("run", 1, 1, 0, None, None, None, (), None, (), tokens_total=None)
    table = StepTable.of([step])
    assert table.known("tokens_total") == []
    assert not table.has_duration.any()
    assert not table.has_stages.any()
    assert list(table.seconds_of("gen")) == [0.0]
