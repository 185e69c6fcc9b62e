import json

import pytest

from longpole_server.analysis.compared_runs import (
    compare_config,
    describe_config,
    find_usual_verdict,
)
from longpole_server.model.comparison import ConfigDifference
from longpole_server.model.records import RunStart
from longpole_server.model.step import Step


def test_settings_are_flattened():
    start = RunStart(
        "run",
        1,
        0,
        system="verl",
        gpu_count=8,
        model_config=json.dumps({"hidden_size": 4096, "rope": {"theta": 1e4}}),
        config={
            "actor": json.dumps({"lr": 1e-6, "optim": {"name": "adam", "betas": [0.9, 0.99]}}),
            "prompt": "{not json",
            "empty": "{}",
            "mode": "declared in the configuration",
        },
    )
    assert describe_config(start) == {
        "actor.lr": "1e-06",
        "actor.optim.name": "adam",
        "actor.optim.betas": "[0.9, 0.99]",
        "prompt": "{not json",
        "empty": "{}",
        "mode": "declared in the configuration",
        "model_config.hidden_size": "4096",
        "model_config.rope.theta": "10000.0",
        "system": "verl",
        "gpu_count": "8",
    }


def test_settings_nested_without_end_are_cut():
    text = '{"a":' * 200 + "1" + "}" * 200
    (setting,) = describe_config(RunStart("run", 1, 0, config={"deep": text})).items()
    assert setting[0].count(".a") == 16


def test_equal_settings_do_not_differ():
    assert compare_config({"a": "1"}, {"a": "1"}) == ()
    assert compare_config({}, {"a": "1"}) == (ConfigDifference("a", "added", None, "1"),)


@pytest.mark.parametrize(
    ("verdicts", "usual"),
    [
        (["rollout.longtail", "reward.slow", "rollout.longtail"], ("rollout.longtail", 2)),
        # What nobody could decide is no verdict that would outvote the others.
        ([None, None, "reward.slow"], ("reward.slow", 1)),
        ([None, None], (None, 0)),
        ([], (None, 0)),
    ],
)
def test_the_verdict_of_most_steps(
    verdicts: list[str | None], usual: tuple[str | None, int]
) -> None:
    steps = [
        Step("run", number, 1, 0, 1, 1.0, "loop", (), 0.0, (), verdict=verdict)
        for number, verdict in enumerate(verdicts)
    ]
    assert find_usual_verdict(steps) == usual
