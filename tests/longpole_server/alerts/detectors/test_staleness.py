from dataclasses import replace

from longpole_server.alerts.detectors.staleness import BoundExceeded, StalenessDrift
from longpole_server.alerts.history import StepPoint
from support.alert_histories import history_of, make_run, make_stage, points_of

LAG = "async/staleness_max"


def with_wait(points: list[StepPoint]) -> list[StepPoint]:
    wait = make_stage("trainer_wait", 4.0)
    last = points[-1]
    return [*points[:-1], replace(last, step=replace(last.step, stages=(wait,)))]


def test_a_bound_is_compared_in_its_own_basis():
    run = make_run(staleness_bound=0.5, staleness_basis="sample_fraction")
    judgement = BoundExceeded().judge(history_of(points_of(LAG, [0.7]), run))
    assert (judgement.firing, judgement.unit) == (True, "sample_fraction")
    assert not BoundExceeded().judge(history_of(points_of(LAG, [0.7]))).is_judged


def test_a_lag_held_at_a_bound_of_two_or_more_says_which_side_is_slow():
    points = with_wait(points_of(LAG, [0.0, 1.0] + [4.0] * 10))
    judgement = StalenessDrift().judge(history_of(points, make_run(staleness_bound=4.0)))
    assert judgement.firing
    assert judgement.words["what"] == "held at the bound of 4 for 10 steps"
    assert judgement.words["side"] == "the trainer waits 40 % of the step: generation is slow"


def test_one_step_off_lives_at_its_bound():
    points = points_of(LAG, [1.0] * 50)
    assert not StalenessDrift().judge(history_of(points, make_run(staleness_bound=1.0))).firing


def test_a_lag_that_drifts_away_from_its_start():
    steady = points_of(LAG, [1.0, 2.0] * 25)
    run = make_run(staleness_bound=16.0)
    assert not StalenessDrift().judge(history_of(steady, run)).firing
    drifting = points_of(LAG, [2.0] * 30 + [2.0 + 0.3 * step for step in range(30)])
    judgement = StalenessDrift().judge(history_of(drifting, run))
    assert (judgement.firing, judgement.baseline) == (True, 2.0)
    assert "neither pauses nor waits are reported" in judgement.words["side"]
