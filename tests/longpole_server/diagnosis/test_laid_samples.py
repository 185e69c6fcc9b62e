"""Samples beside the steps that they ran in: only what all have come in of is told."""

from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.intervals import length, union
from longpole_server.analysis.ledger import assemble_step
from longpole_server.diagnosis.laid_samples import LaidSamples, lay_samples
from longpole_server.model.facts import StepFacts
from support.steps import NS, inputs, loop, samples, span

STEP_S = 100.0


def step_with(number: int, starts_s: list[float], ran_s: float) -> StepFacts:
    """Return a step that trains in its second half, with samples relative to its start."""
    begin = STEP_S * number
    spans = [
        loop(begin, begin + STEP_S),
        span("update_actor", begin + 50, begin + 100, span_id="update", parent="loop"),
    ]
    columns = [samples([ran_s], start_s=begin + start) for start in starts_s]
    made = samples([ran_s] * len(starts_s))
    made = replace(
        made,
        start_ns=[column.start_ns[0] for column in columns],
        end_ns=[column.end_ns[0] for column in columns],
    )
    return StepFacts(assemble_step(inputs(spans, step=number)), {}, made)


def measure(steps: list[StepFacts]) -> tuple[float | None, ...]:
    """Return the figures of samples that can be told of."""
    laid = lay_samples(steps)
    assert laid is not None
    return astuple(laid)


def test_nothing_is_known_without_samples():
    assert lay_samples([]) is None
    assert lay_samples([step_with(1, [], 10.0)]) is None


def test_one_step_tells_only_of_samples_that_began_in_it():
    assert lay_samples([step_with(1, [1.0], 40.0)]) == LaidSamples(100.0, 40.0, 0.0)
    assert lay_samples([step_with(1, [-60.0], 50.0)]) is None


def test_samples_of_the_next_step_ran_beside_this_one():
    steps = [step_with(number, [-60.0], 50.0) for number in range(1, 5)]
    assert measure(steps) == pytest.approx((100.0, 50.0, 40.0))


def test_steps_of_which_samples_are_still_to_come_are_left_out():
    late = [step_with(number, [-260.0], 50.0) for number in range(1, 6)]
    # Samples reach three steps back: only the first two are complete.
    assert measure(late) == pytest.approx((100.0, 50.0, 40.0))
    assert lay_samples(late[:3]) is None


def test_a_few_odd_samples_do_not_hide_the_others():
    steps = [step_with(number, [-1000.0] + [-60.0] * 39, 50.0) for number in range(1, 5)]
    assert measure(steps) == pytest.approx((100.0, 50.0, 40.0))


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 60)), min_size=1, max_size=20))
def test_overlapping_samples_count_once(parts: list[tuple[int, int]]):
    steps = [step_with(number, [0.0], 100.0) for number in (1, 2)]
    begin = round(STEP_S * NS)
    windows = [(begin + start * NS, begin + (start + ran) * NS) for start, ran in parts]
    trajectories = samples([1.0] * len(windows))
    columns = {name: getattr(trajectories, name) for name in trajectories.__slots__}
    columns |= {"start_ns": [w[0] for w in windows], "end_ns": [w[1] for w in windows]}
    first = StepFacts(steps[0].step, {}, type(trajectories)(**columns))
    laid = lay_samples([first])
    inside = [(max(start, begin), min(end, 2 * begin)) for start, end in windows]
    expected_s = length(union(inside)) / NS
    assert (0.0 if laid is None else laid.running_s) == pytest.approx(expected_s)
