"""Verdicts of windows: what single steps cannot upset, what estimates say, what changed within."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longpole_server.diagnosis import diagnose, diagnose_run, find_changes
from longpole_server.diagnosis.baseline import find_baseline
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Step
from longpole_server.service.baselines import BaselineReader
from support.steps import facts

RUN = RunFacts("run", "run", system="verl", mode="sync", gpu_count=8)
_STAGES = ("gen", "reward", "old_log_prob", "adv", "update_actor", "update_weights")
# Few examples: each judges a window of up to sixty steps.
FEW = settings(max_examples=15, deadline=None)


def make_run(
    seconds: Mapping[str, float], count: int, extra: Mapping[int, Mapping[str, float]] | None = None
) -> list[StepFacts]:
    """Return steps with the same stages, some of them with other seconds."""
    return [
        facts({**seconds, **(extra or {}).get(number, {})}, run=RUN, step=number)
        for number in range(1, count + 1)
    ]


def family_of(verdict: str | None) -> str:
    return (verdict or "").partition(".")[0]


_DOMINANT = st.sampled_from(["gen", "update_actor", "old_log_prob", "update_weights"])


@FEW
@given(_DOMINANT, st.integers(4, 60), st.data())
def test_one_straggler_flips_no_window(dominant: str, count: int, data: st.DataObject):
    seconds = dict.fromkeys(_STAGES, 5.0) | {dominant: 60.0}
    usual = diagnose(RUN, make_run(seconds, count)).verdict
    stage = data.draw(st.sampled_from(_STAGES))
    slow = {data.draw(st.integers(2, count)): {stage: data.draw(st.floats(60.0, 5_000.0))}}
    assert family_of(diagnose(RUN, make_run(seconds, count, slow)).verdict) == family_of(usual)


@FEW
@given(st.integers(2, 12), st.integers(0, 40), st.floats(1.0, 400.0), st.data())
def test_validation_counts_with_its_true_share(
    period: int, more: int, seconds: float, data: st.DataObject
):
    count = 3 * period + more
    offset = data.draw(st.integers(0, period - 1))
    extra = {n: {"testing": seconds} for n in range(2, count + 1) if n % period == offset}
    run = make_run({"gen": 40.0, "update_actor": 30.0}, count, extra)
    diagnosis = diagnose(RUN, run)
    of_step = {name: share for name, share in diagnosis.shares.items() if name != "testing"}
    inside_s = diagnosis.shares.get("testing", 0.0) * 70.0 / sum(of_step.values())
    outside_s = sum(outside.duration_s for outside in diagnosis.outside.values())
    assert inside_s + outside_s == pytest.approx(seconds / period, rel=0.05)


@FEW
@given(
    st.dictionaries(st.sampled_from(_STAGES), st.floats(0.1, 500.0), min_size=1),
    st.integers(1, 4),
    st.floats(0.0, 900.0),
)
def test_estimates_are_bounded_and_add_up(seconds: dict[str, float], count: int, testing_s: float):
    every = {n: {"testing": testing_s} for n in range(1, count + 1)} if testing_s > 1 else {}
    diagnosis = diagnose(RUN, make_run(seconds, count, every))
    assert diagnosis.verdict is not None
    assert diagnosis.recoverable_formula
    estimate_s, bounds = diagnosis.recoverable_s_per_step, diagnosis.recoverable_s_per_step_range
    hours = diagnosis.recoverable_gpu_hours_per_day
    if estimate_s is None:
        assert (bounds, hours) == (None, None)
        assert diagnosis.recoverable_formula.startswith("not estimated")
        return
    assert bounds is not None
    outside_s = sum(outside.duration_s for outside in diagnosis.outside.values())
    loop_s = (diagnosis.throughput.step_s or 0.0) + outside_s
    assert 0.0 <= bounds[0] <= estimate_s <= bounds[1] <= loop_s * (1 + 1e-9)
    assert hours is not None
    assert hours == pytest.approx(estimate_s / loop_s * 8 * 24, rel=1e-6, abs=1e-9)
    assert hours <= 8 * 24 * (1 + 1e-9)


@FEW
@given(st.lists(st.sampled_from(["balanced", "rollout.tool", "update.compute"]), max_size=400))
def test_what_flickers_is_no_change_every_time(verdicts: list[str]):
    changes = find_changes(enumerate(verdicts))
    # Each change within the memory doubles what the next one needs.
    assert len(changes) <= 2 + math.log2(1 + len(verdicts))
    for earlier, later in pairwise(changes):
        assert earlier.step < later.step
        assert later.previous == earlier.verdict != later.verdict


@FEW
@given(st.integers(11, 40), st.floats(1.0, 90.0), st.integers(100, 10_000))
def test_the_halves_of_a_window_differ_by_parts_that_add_up(count: int, gen_s: float, tokens: int):
    half = count // 2
    run = [
        replace(each, step=replace(each.step, tokens_total=tokens if n > half else 500))
        for n, each in enumerate(
            make_run(
                {"gen": 30.0, "update_actor": 20.0},
                count,
                {n: {"gen": gen_s} for n in range(half + 1, count + 1)},
            )
        )
    ]
    change = diagnose(RUN, run).decomposition
    assert change is not None
    split = change.decomposition
    parts = [part.log_change for part in split.parts if part.log_change is not None]
    assert math.fsum(parts) == pytest.approx(split.total, abs=1e-9)
    assert (change.before[1], change.after[1]) == (change.after[0] - 1, count)


def test_a_short_window_has_no_halves():
    assert diagnose(RUN, make_run({"gen": 9.0}, 9)).decomposition is None


def test_what_became_slower_late_in_a_log_is_found():
    slow = {number: {"gen": 30.0} for number in range(61, 81)}
    run = make_run({"gen": 12.0, "update_actor": 20.0}, 80, slow)
    found = {finding.code: finding for finding in diagnose_run(RUN, run).findings}
    assert found["regression.gen"].first_step == 61
    assert not any(f.code.startswith("regression.") for f in diagnose_run(RUN, run[:60]).findings)


def test_a_short_log_is_not_compared_with_itself():
    diagnosis = diagnose_run(RUN, make_run({"gen": 12.0, "update_actor": 50.0}, 12))
    assert diagnosis.throughput.baseline is None


class StepsAtHand:
    """All steps of a run, as a store answers for them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        del run_id
        low, high = first or 0, 10**9 if last is None else last
        return [step for step in self._steps if low <= step.step <= high]

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        del run_id
        return self._steps[-count:]


@pytest.mark.parametrize(("first", "last"), [(1, 90), (71, 90), (30, 50), (2, 4)])
def test_a_log_has_the_baseline_of_a_live_run(first: int, last: int):
    steps = [each.step for each in make_run({"gen": 12.0, "update_actor": 20.0}, 90)]
    judged = steps[first - 1 : last]
    live = BaselineReader(StepsAtHand(steps)).read(RUN, 1, 1, judged)
    assert find_baseline(RUN, steps, judged) == live


def test_a_run_sets_its_own_thresholds():
    run = replace(RUN, config={"longpole.threshold.dominance.share": "0.9"})
    steps = make_run({"gen": 12.0, "update_actor": 50.0}, 6)
    assert diagnose(RUN, steps).verdict != "balanced"
    assert diagnose(run, steps).verdict == "balanced"
    assert diagnose(run, steps, overrides={"dominance.share": 0.4}).verdict != "balanced"


@pytest.mark.parametrize(("name", "value"), [("nonsense", "1"), ("dominance.share", "much")])
def test_a_setting_that_makes_no_sense_is_a_note(name: str, value: str):
    run = replace(RUN, config={f"longpole.threshold.{name}": value})
    diagnosis = diagnose(run, make_run({"gen": 12.0, "update_actor": 50.0}, 6))
    assert [note.metric for note in diagnosis.data_quality if note.code == "threshold.ignored"] == [
        name
    ]
