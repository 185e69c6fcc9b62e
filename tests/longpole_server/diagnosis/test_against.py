import math

import pytest

from longpole_server.analysis.window import summarise_window
from longpole_server.diagnosis import compare_windows
from longpole_server.model.facts import RunFacts
from longpole_server.model.step import Step
from support.steps import facts

RUN = RunFacts("run", "run", system="verl", gpu_count=8)
SECONDS = {"gen": 60.0, "update_actor": 30.0, "update_weights": 6.0}


def judged(count: int, tokens: float = 1e6, **seconds: float) -> list[Step]:
    made = [
        facts(SECONDS | seconds, {"perf/total_num_tokens": tokens}, run=RUN, step=n, step_s=None)
        for n in range(1, count + 1)
    ]
    return [*summarise_window([each.step for each in made]).judged]


def test_stages_that_take_longer_and_the_parts_of_the_whole():
    found = compare_windows(RUN, judged(8), judged(8, update_weights=12.0), "in run-7")
    (finding,) = found.findings
    assert finding.code == "regression.update_weights"
    assert finding.summary.endswith("usual were 6 s in run-7.")
    parts = [part.log_change or 0.0 for part in found.decomposition.parts]
    assert math.fsum(parts) == pytest.approx(found.decomposition.total, abs=1e-9)


def test_another_shape_is_no_regression():
    found = compare_windows(RUN, judged(8), judged(8, 2e6, gen=115.0, update_actor=59.0), "in old")
    (finding,) = found.findings
    assert finding.code == "shape.tokens"
    assert "than in old" in finding.summary


def test_too_few_steps_are_split_and_not_compared():
    found = compare_windows(RUN, judged(3), judged(8, gen=200.0), "in old")
    assert found.decomposition.total is not None
    assert found.findings == ()
    assert found.remarks == ("stages are not compared: in old are fewer than 5 judged steps",)


def test_no_step_at_all():
    found = compare_windows(RUN, [], judged(8), "in old")
    assert (found.decomposition.total, found.findings, found.remarks) == (None, (), ())
