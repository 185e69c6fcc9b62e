import random
from collections.abc import Sequence

import pytest

from longpole_server.alerts.catalogue.pace import PACE_RULES
from longpole_server.alerts.detectors.pace import SyncSlow
from longpole_server.alerts.history import History
from longpole_server.alerts.rule import Judgement
from support.alert_histories import history_of, make_point, make_stage

DECAY, REGRESSION = (rule.detector for rule in PACE_RULES)


def look(rates: Sequence[float], lengths: Sequence[float] = (), tokens: int = 1_000) -> History:
    points = [
        make_point(
            step,
            {"response_length/mean": lengths[step - 1]} if lengths else {},
            throughput_tokens_per_s_per_gpu=rate,
            tokens_total=tokens,
        )
        for step, rate in enumerate(rates, 1)
    ]
    history = history_of(points)
    return History(
        history.moment, history.run, points[-256:], opening=points[:40], entity=history.entity
    )


def noisy(seed: int, count: int, rate: float = 1_000.0) -> list[float]:
    rng = random.Random(seed)
    return [rng.gauss(rate, 0.05 * rate) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_a_steady_run_neither_decays_nor_drops(seed: int):
    history = look(noisy(seed, 200))
    for detector in (DECAY, REGRESSION):
        judgement = detector.judge(history)
        assert judgement.is_judged
        assert not judgement.firing


def test_a_slow_decay_is_seen_against_the_start_only():
    rates = [1_000.0 * 0.998**step for step in range(300)]
    assert DECAY.judge(look(rates)).firing
    assert not REGRESSION.judge(look(rates)).firing


def test_a_drop_is_seen_within_three_steps():
    judgement = REGRESSION.judge(look(noisy(1, 60) + noisy(2, 3, 500.0)))
    assert judgement.firing
    assert not REGRESSION.judge(look(noisy(1, 60) + noisy(2, 1, 500.0))).firing


def test_longer_responses_explain_a_fall():
    lengths = [500.0 + 3 * step for step in range(300)]
    rates = [500_000.0 / length for length in lengths]
    judgement: Judgement = DECAY.judge(look(rates, lengths))
    assert not judgement.firing
    assert (judgement.quiet_because or "").startswith("benign: responses got longer")
    flat = [500.0] * 300
    assert DECAY.judge(look(rates, flat)).firing


def test_a_slow_weight_sync():
    def steps(seconds: Sequence[float]) -> History:
        return history_of(
            [
                make_point(step, stages=(make_stage("update_weights", each),))
                for step, each in enumerate(seconds, 1)
            ]
        )

    assert SyncSlow().judge(steps([2.0] * 15 + [20.0])).firing
    assert not SyncSlow().judge(steps([0.1] * 15 + [1.0])).firing, "too short to matter"
    assert not SyncSlow().judge(steps([2.0] * 5 + [20.0])).is_judged
