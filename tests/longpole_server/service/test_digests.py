from dataclasses import replace

import pytest

from longpole_server.model.step import Confidence, OutsideStage, StageTime, Step
from longpole_server.service.digests import (
    choose_verdict,
    measure_usual,
)
from support.server_runs import BEGIN_NS


def make_step(
    number: int, verdict: str | None, confidence: Confidence | None, gen_s: float = 6.0
) -> Step:
    gen = StageTime("gen", gen_s, gen_s, 0.6, None, None, (), "scalar")
    return Step(
        run_id="run",
        step=number,
        attempt=1,
        start_ns=BEGIN_NS,
        end_ns=BEGIN_NS,
        duration_s=gen_s + 4.0,
        closed_by="loop",
        stages=(gen,),
        unattributed_s=4.0,
        outside=(),
        verdict=verdict,
        confidence=confidence,
    )


def test_the_verdict_most_steps_have_is_the_runs():
    steps = [
        make_step(1, "update.compute", "high"),
        make_step(2, "rollout.long_tail", "high"),
        make_step(3, "rollout.long_tail", "medium"),
        make_step(4, "rollout.long_tail", "medium"),
        make_step(5, None, None),
    ]
    assert choose_verdict(steps) == ("rollout.long_tail", "medium")


def test_the_newest_of_equals_wins():
    steps = [make_step(1, "reward", "low"), make_step(2, "logprob", "high")]
    assert choose_verdict(steps) == ("logprob", "high")


def test_no_judged_step_is_no_verdict():
    assert choose_verdict([]) == (None, None)
    assert choose_verdict([make_step(1, None, None)]) == (None, None)


def test_usual_is_median_and_longest_of_each_window():
    steps = [make_step(n, None, None, gen_s) for n, gen_s in enumerate([5.0, 6.0, 20.0])]
    steps[0] = replace(steps[0], outside=(OutsideStage("testing", 30.0),))
    usual = measure_usual(steps)
    assert (usual["gen"].median_s, usual["gen"].max_s) == (6.0, 20.0)
    assert (usual["step"].median_s, usual["step"].max_s) == (10.0, 24.0)
    assert usual["testing"].median_s == pytest.approx(30.0)
    assert measure_usual([]) == {}
