import math
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


def remember(rng: random.Random, scale: float, memory: float = 0.6) -> list[float]:
    values, last = list[float](), 0.0
    for _ in range(110):
        last = memory * last + rng.gauss(0, scale) * (1 - memory**2) ** 0.5
        values.append(last)
    return values


@pytest.mark.parametrize("seed", range(12))
def test_noise_that_remembers_does_not_hide_what_lengths_explain(seed: int):
    rng = random.Random(seed)
    lengths = [800 * math.exp(0.01 * at + e) for at, e in enumerate(remember(rng, 0.05))]
    noise = remember(rng, 0.05)
    rates = [
        1e3 * (length / 800) ** -0.5 * math.exp(noise[at]) for at, length in enumerate(lengths)
    ]
    fired = [DECAY.judge(look(rates[:end], lengths[:end])).firing for end in range(60, 111, 2)]
    assert not any(fired)


def test_a_decay_beyond_what_lengths_explain_is_told():
    rng = random.Random(5)
    lengths = [800 * math.exp(0.003 * at + rng.gauss(0, 0.04)) for at in range(110)]
    rates = [
        1e3 * (length / 800) ** -0.6 * 0.985**at * math.exp(rng.gauss(0, 0.04))
        for at, length in enumerate(lengths)
    ]
    assert DECAY.judge(look(rates, lengths)).firing
