"""slime's own option for samples, with samples as its rollouts make them."""

import time
from types import SimpleNamespace
from typing import Any

import longpole
from longpole.hooks.slime import log_rollout
from support.sdk_receiver import DEADLINE_S, FakeReceiver


def make_sample(index: int, **more: Any) -> SimpleNamespace:
    return SimpleNamespace(
        index=index,
        group_index=index // 2,
        tokens=[1] * 10,
        response_length=6,
        **{"reward": 0.5, "loss_mask": None, "status": SimpleNamespace(value="completed"), **more},
    )


def test_samples_are_recorded_and_slime_logs_as_before() -> None:
    args = SimpleNamespace(reward_key="score")
    samples = [
        make_sample(0),
        [make_sample(1, reward={"score": 1.0}, loss_mask=[1, 0, 1, 1, 1, 1])],
        make_sample(2, status=SimpleNamespace(value="truncated"), reward=None),
    ]
    with FakeReceiver() as receiver:
        longpole.init("run", endpoint=receiver.endpoint, role="rollout")
        before_ns = time.time_ns()
        assert log_rollout(4, args, samples, {}, 2.0) is False
        assert log_rollout(4, args, ["no sample"], {}, 2.0) is False
        longpole.shutdown(timeout_s=DEADLINE_S)
        found = {span.attributes["rl.trajectory.id"]: span for span in receiver.spans()}
    assert found.keys() == {"4/0", "4/1", "4/2"}
    first = found["4/0"].attributes
    assert (first["rl.loop.iteration"], first["rl.group.id"]) == (4, "0")
    assert (first["gen_ai.usage.input_tokens"], first["gen_ai.usage.output_tokens"]) == (4, 6)
    assert first["rl.reward.value"] == 0.5
    assert found["4/1"].attributes["gen_ai.usage.output_tokens"] == 5
    assert found["4/1"].attributes["rl.reward.value"] == 1.0
    assert found["4/2"].attributes["rl.trajectory.status"] == "truncated"
    assert "rl.reward.value" not in found["4/2"].attributes
    assert found["4/0"].end_ns - found["4/0"].start_ns == 2_000_000_000
    assert found["4/0"].end_ns >= before_ns
