"""Drops are told by whoever counts them: a logged ratio, counters since the start, samples."""

import pytest

from longpole_server.diagnosis import diagnose
from longpole_server.model.diagnosis import Finding
from longpole_server.model.facts import RunFacts, StepFacts
from support.steps import facts, samples

RUN = RunFacts("run", "run", system="verl", gpu_count=8)
SECONDS = {"gen": 6.0, "update_actor": 3.0}


def counted(step: int, dropped: float, generated: float) -> StepFacts:
    totals = {
        "fully_async/count/dropped_stale_samples": dropped,
        "fully_async/count/total_generated_samples": generated,
    }
    return facts(SECONDS, totals, step=step)


def find(steps: list[StepFacts]) -> Finding | None:
    found = diagnose(RUN, steps).findings
    return next((one for one in found if one.code == "health.stale_drop_ratio"), None)


def test_counters_since_the_start_are_read_as_what_was_added():
    # Three hundred were dropped before the window; of what the window makes, thirty in a hundred.
    steps = [counted(step, 300 + 30 * step, 1_000 + 100 * step) for step in range(1, 6)]
    finding = find(steps)
    assert finding is not None
    assert finding.evidence[0].value == pytest.approx(0.3)
    assert find([counted(step, 300, 1_000 + 100 * step) for step in range(1, 6)]) is None


def test_counters_that_begin_anew_are_not_read_as_less_than_nothing():
    totals = [(60, 200), (90, 300), (0, 0), (30, 100), (60, 200)]
    steps = [counted(step, *total) for step, total in enumerate(totals, 1)]
    finding = find(steps)
    assert finding is not None
    assert finding.evidence[0].value == pytest.approx(0.3)


def test_samples_tell_where_nothing_is_counted():
    statuses = ["dropped_stale"] * 3 + ["success"] * 7
    steps = [
        facts(SECONDS, step=step, trajectories=samples([5.0] * 10, statuses=statuses))
        for step in range(1, 4)
    ]
    finding = find(steps)
    assert finding is not None
    assert finding.evidence[0].source == "trajectories"


def test_one_step_of_counters_tells_nothing():
    assert find([counted(1, 500, 1_000)]) is None
