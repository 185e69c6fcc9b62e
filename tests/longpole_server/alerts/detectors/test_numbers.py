"""Detectors of a figure over steps: thresholds, jumps, against the start, not finite."""

import math
import random
from collections.abc import Sequence

import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.detectors.against_start import AgainstStart
from longpole_server.alerts.detectors.not_finite import NotFinite
from longpole_server.alerts.detectors.robust_jump import RobustJump
from longpole_server.alerts.detectors.threshold import Threshold
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.rule import Detector, Judgement
from longpole_server.alerts.wording import fill_text
from support.alert_histories import history_of, make_point, points_of


def judge_all(detector: Detector, points: Sequence[StepPoint]) -> list[Judgement]:
    """The judgement at the close of every step."""
    return [detector.judge(history_of(points[: index + 1])) for index in range(len(points))]


def fired(detector: Detector, name: str, values: Sequence[float]) -> list[int]:
    """Steps at which it fires."""
    judged = judge_all(detector, points_of(name, values))
    return [step for step, judgement in enumerate(judged, 1) if judgement.firing]


def noise(seed: int, count: int, middle: float, spread: float) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(middle, spread) for _ in range(count)]


def test_a_threshold_has_two_sides():
    above = Threshold("x", fire=2, clear=1)
    high, between, low = (
        above.judge(history_of(points_of("x", [value]))) for value in (3.0, 1.5, 1.0)
    )
    assert (high.firing, high.cleared, high.quiet_because) == (True, False, None)
    assert (between.firing, between.cleared) == (False, False)
    assert (low.firing, low.cleared, low.quiet_because) == (False, True, "1 is not above 2")
    below = Threshold("x", fire=1, clear=2, comparison="below")
    assert below.judge(history_of(points_of("x", [0.5]))).firing


def test_an_alias_of_a_canonical_metric_is_found():
    detector = Threshold("clip_fraction", 0.5, 0.4, "ratio")
    judgement = detector.judge(history_of(points_of("actor/pg_clipfrac", [0.6])))
    assert judgement.value == 0.6


def test_what_is_not_reported_now_is_not_judged_by_the_past():
    judgement = Threshold("x", 2, 1).judge(history_of(points_of("x", [3.0, None])))
    assert judgement.quiet_because == "not judgeable: x is not reported"


@pytest.mark.parametrize("seed", range(30))
def test_a_jump_is_found_and_noise_is_not(seed: int):
    detector = RobustJump("x", "above", min_change=0.05, min_change_of_median=0.25)
    values = noise(seed, 200, 0.5, 0.03)
    assert fired(detector, "x", values) == []
    jumped = [*values[:60], *(value + 0.4 for value in values[60:66])]
    assert fired(detector, "x", jumped) == list(range(61, 67))


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_rise_is_no_jump(seed: int):
    values = [value + 0.002 * step for step, value in enumerate(noise(seed, 300, 0.2, 0.02))]
    detector = RobustJump("x", "above", min_change=0.05, min_change_of_median=0.25)
    assert fired(detector, "x", values) == []


def test_a_flat_past_has_a_least_distance():
    detector = RobustJump("x", "below", min_change=0.1)
    assert fired(detector, "x", [1.0] * 20 + [0.95, 0.5]) == [22]
    judgement = judge_all(detector, points_of("x", [1.0] * 20 + [0.5]))[-1]
    assert (judgement.baseline, judgement.threshold) == (1.0, pytest.approx(0.9))


def test_few_steps_are_no_past():
    judged = judge_all(RobustJump("x", "above"), points_of("x", [1.0] * 14))
    reasons = [judgement.quiet_because for judgement in judged]
    assert reasons[0] == "not judgeable: 0 of 10 earlier steps are known"
    assert judged[13].is_judged


def test_the_start_stays_what_it_was_however_long_the_run():
    detector = AgainstStart("x", "below", fire_ratio=0.2, clear_ratio=0.3)
    values = [1.0 * 0.99**step for step in range(400)]
    first = fired(detector, "x", values)[0]
    assert values[first - 1] == pytest.approx(0.2 * 0.88, rel=0.1)
    points = points_of("x", values)
    late = history_of(points[-100:])
    assert not detector.judge(late).firing, "its own newest steps are no start"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_named(value: float):
    scalars = {"actor/pg_loss": value, "actor/grad_norm": 1.0, "critic/score/mean": value}
    judgement = NotFinite(("loss", "grad_norm")).judge(history_of([make_point(1, scalars)]))
    assert judgement.firing
    assert judgement.words["names"] == "actor/pg_loss"


@pytest.mark.parametrize(
    ("scalars", "said"),
    [
        (
            {"actor/pg_loss": math.nan},
            "A logged loss or gradient norm is not finite: actor/pg_loss.",
        ),
        (
            {"actor/pg_loss": math.nan, "grad_norm": math.inf},
            "2 logged losses or gradient norms are not finite: actor/pg_loss, grad_norm.",
        ),
    ],
)
def test_one_loss_that_is_no_number_is_no_plural(scalars: dict[str, float], said: str):
    (rule,) = (rule for rule in BUILT_IN_RULES if rule.rule_id == "loss.nan")
    judgement = rule.detector.judge(history_of([make_point(1, scalars)]))
    assert fill_text(rule.summary, judgement, "team/run") == said
