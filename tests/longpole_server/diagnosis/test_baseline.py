import pytest

from longpole_server.diagnosis import make_baseline
from support.steps import facts


def test_first_steady_steps():
    steps = [
        facts({"gen": 900 if number == 1 else 60, "update_actor": 30}, step=number)
        for number in range(1, 41)
    ]
    baseline = make_baseline(steps)
    assert baseline is not None
    assert baseline.num_steps == 20
    assert baseline.stage_s["gen"] == pytest.approx(60)
    assert baseline.step_s == pytest.approx(90)


def test_too_few_steps():
    assert make_baseline([facts({"gen": 60}, step=number) for number in range(1, 6)]) is None
