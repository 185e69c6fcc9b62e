import numpy as np

from longpole_server.alerts.detectors.reward_shape import RewardJump
from longpole_server.alerts.detectors.robust_jump import RobustJump
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.two_peaks import split_values
from support.alert_histories import history_of, make_counts, make_point

DETECTOR = RewardJump(RobustJump("reward_mean", "above", min_change=0.05))


def points_with(shares: list[float], *, binary: bool = False) -> list[StepPoint]:
    rng = np.random.default_rng(9)
    points: list[StepPoint] = []
    for step, share in enumerate(shares, 1):
        hacked = rng.random(200) < share
        usual = rng.integers(0, 2, 200) if binary else rng.normal(0.4, 0.08, 200)
        split = split_values([float(each) for each in np.where(hacked, 1.0, usual)])
        assert split is not None
        counts = make_counts(reward_split=split[0], reward_minority=split[1])
        points.append(make_point(step, {"reward_mean": 0.5}, samples=counts))
    return points


def test_rewards_that_turn_two_peaked():
    before = [0.0] * 20
    assert not DETECTOR.judge(history_of(points_with(before))).firing
    judgement = DETECTOR.judge(history_of(points_with([*before, *[0.25] * 3])))
    assert judgement.firing
    assert judgement.words["what"] == "the rewards of the samples fell into two groups"
    back = DETECTOR.judge(history_of(points_with([*before, *[0.25] * 3, *[0.0] * 3])))
    assert back.cleared


def test_right_or_wrong_always_has_two_peaks():
    judgement = DETECTOR.judge(history_of(points_with([0.0] * 20 + [0.3] * 5, binary=True)))
    assert not judgement.firing


def test_a_few_outliers_are_no_second_peak():
    assert not DETECTOR.judge(history_of(points_with([0.0] * 20 + [0.02] * 5))).firing


def test_the_mean_is_judged_with_and_without_samples():
    means = [0.3, 0.31, 0.29, 0.3] * 5 + [0.9]
    points = [make_point(step, {"reward_mean": mean}) for step, mean in enumerate(means, 1)]
    judgement = DETECTOR.judge(history_of(points))
    assert judgement.firing
    assert judgement.words["what"] == "the mean reward jumped"
