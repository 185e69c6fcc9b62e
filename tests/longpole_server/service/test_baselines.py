import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from longpole_server.diagnosis import Baseline
from longpole_server.model.facts import RunFacts
from longpole_server.model.step import StageTime, Step
from longpole_server.service.baselines import BaselineReader

RUN = RunFacts("run", "run", gpu_count=8)


def make_step(number: int, gen_s: float = 60.0, *, attempt: int = 1, gpus: int | None = 8) -> Step:
    stage = StageTime("gen", gen_s, gen_s, 1.0, 0, 1, (), "span", ((0, 1),))
    return Step(
        run_id="run",
        step=number,
        attempt=attempt,
        start_ns=0,
        end_ns=1,
        duration_s=gen_s,
        closed_by="loop",
        stages=(stage,),
        unattributed_s=0.0,
        outside=(),
        gpu_count=gpus,
    )


@dataclass
class Store:
    """Steps as a store answers for them, and how often it was asked."""

    steps: dict[int, Step] = field(default_factory=dict[int, Step])
    num_queries: int = 0

    def add(self, *steps: Step) -> None:
        self.steps |= {step.step: step for step in steps}

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        self.num_queries += 1
        assert first is not None
        assert last is not None
        return [self.steps[at] for at in sorted(self.steps) if first <= at <= last]

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        self.num_queries += 1
        return [self.steps[at] for at in sorted(self.steps)[-count:]]


def gen_s(baseline: Baseline | None) -> float:
    assert baseline is not None
    return baseline.stage_s["gen"]


def numbers(baseline: Baseline | None) -> tuple[int, int]:
    assert baseline is not None
    return baseline.steps[0].step, baseline.steps[-1].step


def test_live_run_asks_once():
    store = Store()
    baselines = BaselineReader(store)
    for number in range(1, 301):
        step = make_step(number, 60.0 + number)
        baseline = baselines.read(RUN, 1, 1, [step])
        baselines.note(step)
        store.add(step)
        if number <= 6:
            assert baseline is None
        elif number <= 22:
            assert numbers(baseline) == (2, min(number - 1, 21))
        else:
            assert baseline is not None
            assert numbers(baseline) == (2, 21)
            assert numbers(baseline.recent) == (max(2, number - 20), number - 1)
    assert store.num_queries == 2


def test_restart_in_a_long_run_asks_once():
    store = Store()
    store.add(*(make_step(number, 60.0 + number) for number in range(1, 5_001)))
    baselines = BaselineReader(store)
    for number in range(5_001, 5_101):
        baseline = baselines.read(RUN, 1, 1, [make_step(number)])
        assert baseline is not None
        assert numbers(baseline) == (2, 21)
        assert numbers(baseline.recent) == (number - 20, number - 1)
        baselines.note(make_step(number))
    assert store.num_queries == 2


def test_step_numbers_with_gaps_ask_once():
    store = Store()
    baselines = BaselineReader(store)
    for number in range(10, 2_000, 10):
        step = make_step(number)
        baseline = baselines.read(RUN, 1, 10, [step])
        baselines.note(step)
        store.add(step)
        if number > 250:
            assert baseline is not None
            assert numbers(baseline) == (20, 210)
            assert numbers(baseline.recent) == (number - 200, number - 10)
    assert store.num_queries == 2


def test_range_of_long_ago_is_read_for_itself():
    store = Store()
    store.add(*(make_step(number, 60.0 + number) for number in range(1, 1_001)))
    baselines = BaselineReader(store)
    asked = [make_step(number) for number in range(500, 520)]
    baseline = baselines.read(RUN, 1, 1, asked)
    assert baseline is not None
    assert numbers(baseline.recent) == (480, 499)
    late = baselines.read(RUN, 1, 1, [make_step(1_001)])
    assert late is not None
    assert numbers(late.recent) == (981, 1_000)


def test_resume_begins_a_baseline_of_its_own():
    store = Store()
    store.add(*(make_step(number, 60.0) for number in range(1, 101)))
    baselines = BaselineReader(store)
    assert gen_s(baselines.read(RUN, 1, 1, [make_step(100)])) == 60.0
    for number in range(91, 131):
        step = make_step(number, 30.0, attempt=2)
        baseline = baselines.read(RUN, 2, 91, [step])
        if number < 97:
            assert baseline is None
        else:
            assert gen_s(baseline) == 30.0
            assert baseline is not None
            assert baseline.recent is not None
            assert baseline.recent.stage_s["gen"] == 30.0
        baselines.note(step)
        store.add(step)


def test_attempt_that_a_later_one_overtook():
    store = Store()
    store.add(*(make_step(number, 60.0) for number in range(1, 41)))
    store.add(*(make_step(number, 30.0, attempt=2) for number in range(31, 201)))
    baseline = BaselineReader(store).read(RUN, 1, 1, [make_step(30)])
    assert baseline is not None
    assert numbers(baseline.recent) == (10, 29)


def test_changed_gpu_count_begins_a_baseline_of_its_own():
    store = Store()
    baselines = BaselineReader(store)
    for number in range(1, 141):
        gpus = 8 if number <= 70 else 16
        step = make_step(number, 480.0 / gpus, gpus=gpus)
        baseline = baselines.read(replace(RUN, gpu_count=None), 1, 1, [step])
        if 10 < number <= 70:
            assert gen_s(baseline) == 60.0
        elif 70 < number <= 75:
            assert baseline is None
        elif number > 75:
            assert gen_s(baseline) == 30.0
            assert baseline is not None
            assert baseline.recent is not None
            assert baseline.recent.stage_s["gen"] == 30.0
        baselines.note(step)
        store.add(step)


def test_gpus_that_are_joined_late_change_nothing():
    store = Store()
    store.add(*(make_step(number, gpus=None if number < 15 else 8) for number in range(1, 41)))
    baseline = BaselineReader(store).read(RUN, 1, 1, [make_step(41)])
    assert numbers(baseline) == (2, 21)


def test_other_configuration_is_named():
    store = Store()
    store.add(*(make_step(number) for number in range(1, 41)))
    baselines = BaselineReader(store)
    plain = baselines.read(RUN, 1, 1)
    capped = baselines.read(replace(RUN, response_length_cap=8_192), 1, 1)
    assert plain is not None
    assert capped is not None
    assert plain.configuration != capped.configuration


def test_steps_derived_again_replace_themselves():
    store = Store()
    baselines = BaselineReader(store)
    order = list(range(1, 61))
    random.Random(5).shuffle(order)
    baselines.read(RUN, 1, 1)
    for number in (*order, *order):
        baselines.note(make_step(number, 60.0 + number))
    baseline = baselines.read(RUN, 1, 1, [make_step(61)])
    assert baseline is not None
    assert numbers(baseline) == (2, 21)
    assert numbers(baseline.recent) == (41, 60)
    assert baseline.stage_s["gen"] == pytest.approx(60 + 11.5)
    assert all(stage.windows == () for step in baseline.steps for stage in step.stages)


def test_an_earlier_first_step_forgets_nothing():
    """Steps are judged before they are stored; then one from before them arrives."""
    reader = BaselineReader(Store())
    for number in range(5, 15):
        step = make_step(number)
        reader.read(RUN, 1, 5, [step])
        reader.note(step)

    baseline = reader.read(RUN, 1, 4, [make_step(15)])

    assert gen_s(baseline) == 60.0
    assert numbers(baseline) == (5, 14)


def test_steps_that_come_all_at_once_are_judged_from_the_last():
    store = Store()
    baselines = BaselineReader(store)
    steps = [make_step(number, 60.0 + number) for number in range(1, 31)]
    for step in reversed(steps):
        # The first step known so far; nothing is stored before all of them are judged.
        baselines.read(RUN, 1, step.step, [step])
        baselines.note(step)
    store.add(*steps)
    assert numbers(baselines.read(RUN, 1, 1, [make_step(31)])) == (2, 21)
