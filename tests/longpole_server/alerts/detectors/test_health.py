from typing import Any

import pytest

from longpole_server.alerts.detectors.health import (
    AdvantageSpread,
    KlHigh,
    LengthCollapsed,
    MfuLow,
)
from support.alert_histories import history_of, make_point, make_run, points_of


def test_kl_of_tokens_is_multiplied_by_the_length():
    scalars = {"actor/kl_loss": 0.06, "response_length/mean": 1_000.0}
    judgement = KlHigh().judge(history_of([make_point(1, scalars)]))
    assert (judgement.firing, judgement.value) == (True, pytest.approx(60.0))
    assert judgement.words["basis"] == "0.06 a token x 1000 tokens of a mean response"
    on_sequences = make_run(facts={"config": {"kl_basis": "sequence"}})
    judgement = KlHigh().judge(history_of([make_point(1, scalars)], on_sequences))
    assert (judgement.firing, judgement.value) == (False, 0.06)
    del scalars["response_length/mean"]
    assert not KlHigh().judge(history_of([make_point(1, scalars)])).is_judged


def test_kl_that_is_quiet_says_that_it_is_of_a_sequence():
    scalars = {"actor/kl_loss": 0.02, "response_length/mean": 1_000.0}
    judgement = KlHigh().judge(history_of([make_point(1, scalars)]))
    assert judgement.quiet_because == "20 nats is not above 50 nats a sequence"


@pytest.mark.parametrize(
    ("config", "mfu", "fires"),
    [(None, 0.15, True), ({"num_experts": 64}, 0.15, False), ({"num_experts": 64}, 0.05, True)],
)
def test_mfu_has_a_band_for_each_kind_of_model(config: Any, mfu: float, fires: bool):
    run = make_run(facts={"model_config": config})
    judgement = MfuLow().judge(history_of([make_point(1, mfu_actor=mfu)], run))
    assert judgement.firing == fires
    for unknown in (None, 0.0, 1.4):
        history = history_of([make_point(1, mfu_actor=unknown)], run)
        assert not MfuLow().judge(history).is_judged


def test_advantages_without_a_spread():
    points = [
        make_point(step, {"critic/advantages/max": 2.0, "critic/advantages/min": -2.0})
        for step in range(1, 15)
    ]
    flat = make_point(15, {"critic/advantages/max": 0.01, "critic/advantages/min": 0.0})
    assert not AdvantageSpread().judge(history_of(points)).firing
    judgement = AdvantageSpread().judge(history_of([*points, flat]))
    assert (judgement.firing, judgement.baseline) == (True, 4.0)


def test_responses_that_collapse_and_those_that_were_always_short():
    name = "response_length/mean"
    long_ones = points_of(name, [800.0] * 20 + [150.0])
    assert LengthCollapsed().judge(history_of(long_ones)).firing
    assert not LengthCollapsed().judge(history_of(points_of(name, [3.0] * 20))).firing
    assert LengthCollapsed().judge(history_of(points_of(name, [3.0] * 20 + [1.0]))).firing


def test_a_first_short_task_after_some_of_two_lengths_is_no_collapse():
    name = "response_length/mean"
    mixed = [2920.0, 720.0, 2861.0, 2990.0, 696.0, 761.0, 2558.0, 2841.0]
    assert (
        not LengthCollapsed().judge(history_of(points_of(name, [*mixed, 211.0, 224, 207]))).firing
    )
    assert LengthCollapsed().judge(history_of(points_of(name, [*mixed, 64.0, 66.0, 61.0]))).firing
