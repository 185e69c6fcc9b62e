"""The plugin with a pretended verl of the same names, in a process of its own as verl's are."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.sdk_receiver import FakeReceiver

PRETEND = Path(__file__).parents[2] / "support" / "pretend_verl"


def run(role: str, endpoint: str, **variables: str) -> Any:
    """Return what the program itself saw."""
    paths = os.pathsep.join([str(PRETEND), *sys.path])
    completed = subprocess.run(
        [sys.executable, str(PRETEND / "train.py"), role],
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "PRETEND_VERL_PLUGINS": "longpole.hooks.verl",
            "LONGPOLE_ENDPOINT": endpoint,
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


def test_the_controller_tells_the_run_its_steps_and_its_scalars() -> None:
    with FakeReceiver() as receiver:
        assert run("controller", receiver.endpoint) == ["out of memory", 2]
        spans = {(span.name, span.attributes.get("rl.stage")): span for span in receiver.spans()}
        loops = [span for span in receiver.spans() if span.name == "rl.loop"]
        assert [span.attributes["rl.loop.iteration"] for span in loops] == [1, 2, 2]
        assert loops[-1].is_error
        stages = {
            (span.attributes["rl.loop.iteration"], span.attributes["rl.stage"])
            for span in receiver.spans()
            if span.name != "rl.loop"
        }
        assert stages == {
            (step, stage) for step in (1, 2) for stage in ("gen", "update_actor", "testing")
        }
        resource = spans["rl.loop", None].resource
        assert resource["rl.run.id"] == "proj/ppo"
        assert (resource["rl.role"], resource["rl.mode"]) == ("controller", "sync")
        assert (resource["rl.system"], resource["rl.system.version"]) == ("verl", "0.9.1")
        assert (resource["rl.algorithm"], resource["rl.gpu.count"]) == ("grpo", 16)
        names = {point.name for point in receiver.points()}
        assert {"timing_s/gen", "timing_s/step", "critic/score/mean"} <= names
        events = {event.name: event for event in receiver.events()}
        assert events["rl.run.start"].attributes["rl.config.actor_rollout_ref.rollout.n"] == 2
        assert events["rl.run.end"].attributes["rl.status"] == "crashed"


def test_a_step_that_generates_several_times_has_a_window_for_each() -> None:
    with FakeReceiver() as receiver:
        run("dynamic_sampling", receiver.endpoint)
        loops = [span for span in receiver.spans() if span.name == "rl.loop"]
        assert [span.attributes["rl.loop.iteration"] for span in loops] == [1, 1, 1]
        stages = [span for span in receiver.spans() if span.name != "rl.loop"]
        assert [span.attributes["rl.stage"] for span in stages].count("gen") == 3
        assert {span.parent for span in stages} == {span.span_id for span in loops}


def test_each_sample_of_the_agent_loop_is_a_trajectory_of_its_own_parts() -> None:
    with FakeReceiver() as receiver:
        first, second, failed = run("agent_loop", receiver.endpoint)
        assert (first, second) == (0.25, 0.25)
        assert "the engine has gone" in failed
        samples = {
            span.attributes["rl.trajectory.id"]: span
            for span in receiver.spans()
            if span.name == "rl.trajectory"
        }
        assert samples.keys() == {"p0/0", "p0/1", "p9/0"}
        sample = samples["p0/1"]
        values = sample.attributes
        assert values["rl.group.id"] == "p0"
        assert values["rl.loop.iteration"] == 1
        assert (values["gen_ai.usage.input_tokens"], values["gen_ai.usage.output_tokens"]) == (3, 4)
        assert (values["rl.reward.value"], values["rl.trajectory.turns"]) == (0.25, 2)
        assert (values["rl.policy.version.start"], values["rl.policy.version.end"]) == (0, 1)
        assert values["gen_ai.request.id"] == ["p0-engine"]
        assert values["service.instance.id"] == "replica_3"
        assert samples["p9/0"].attributes["rl.trajectory.status"] == "error"
        parts = {span.name: span for span in receiver.spans() if span.parent == sample.span_id}
        assert parts.keys() == {"rl.generate", "rl.score"}
        assert parts["rl.generate"].end_ns - parts["rl.generate"].start_ns >= 10_000_000
        assert parts["rl.generate"].end_ns <= parts["rl.score"].start_ns
        assert sample.resource["rl.role"] == "agent_loop"
        assert sample.resource["rl.run.id"] == "proj/ppo"


def test_a_model_worker_says_what_it_does_and_leaves_the_run_to_its_job() -> None:
    with FakeReceiver() as receiver:
        assert run("worker", receiver.endpoint) == 2
        (span,) = receiver.spans()
        assert span.attributes["rl.stage"] == "actor_update"
        assert span.resource["rl.role"] == "hybrid"
        assert "rl.run.id" not in span.resource


@pytest.mark.parametrize("role", ["controller", "agent_loop", "worker"])
def test_turned_off_it_records_nothing(role: str) -> None:
    with FakeReceiver() as receiver:
        run(role, receiver.endpoint, LONGPOLE_VERL="off")
        assert receiver.requests == []


def test_without_a_receiver_nothing_changes() -> None:
    assert run("controller", "http://127.0.0.1:9") == ["out of memory", 2]
    assert run("agent_loop", "http://127.0.0.1:9")[:2] == [0.25, 0.25]
