import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from longpole.declaration import Declaration
from longpole.identity import build_resource, encode_model_config, read_process_start_ns


def build(declaration: Declaration, environ: dict[str, str] | None = None) -> dict[str, Any]:
    return build_resource(declaration, environ or {}, pid=41, process_start_ns=99)


def test_says_everything_that_was_declared() -> None:
    declaration = Declaration(
        run_id="run",
        project="project",
        name="name",
        system="verl",
        system_version="0.9.1",
        algorithm="grpo",
        mode="sync",
        role="rollout",
        attempt=2,
        gpu_count=16,
        gpu_ids=["GPU-1", "GPU-2"],
        model_name="Qwen2.5-7B",
        model_config={"hidden_size": 3584},
        staleness_bound=1.5,
        staleness_basis="versions",
        instance="replica-0",
        host="node-1",
    )
    assert build(declaration) == {
        "rl.run.id": "run",
        "rl.run.attempt": 2,
        "rl.run.name": "name",
        "rl.project": "project",
        "rl.system": "verl",
        "rl.system.version": "0.9.1",
        "rl.algorithm": "grpo",
        "rl.mode": "sync",
        "rl.role": "rollout",
        "rl.gpu.count": 16,
        "rl.gpu.ids": ("GPU-1", "GPU-2"),
        "rl.model.name": "Qwen2.5-7B",
        "rl.model.config": '{"hidden_size": 3584}',
        "rl.staleness.bound": 1.5,
        "rl.staleness.basis": "versions",
        "service.name": "verl",
        "service.instance.id": "replica-0",
        "host.name": "node-1",
        "process.pid": 41,
        "rl.process.start_ns": 99,
    }


def test_what_nobody_said_is_absent() -> None:
    assert build(Declaration()) == {
        "service.name": "longpole",
        "host.name": socket.gethostname(),
        "process.pid": 41,
        "rl.process.start_ns": 99,
    }


def test_environment_fills_what_the_call_left_open() -> None:
    environ = {
        "LONGPOLE_RUN_ATTEMPT": "3",
        "LONGPOLE_PROJECT": "project",
        "LONGPOLE_RUN_NAME": "name",
        "LONGPOLE_HOST_NAME": "node-2",
        "SLURM_JOB_ID": "77",
        "RAY_JOB_ID": "0100",
        "OTEL_SERVICE_NAME": "trainer",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=pod-1, note=a%20b,broken",
    }
    resource = build(Declaration(), environ)
    assert resource["rl.run.id"] == "project/name"
    assert resource["rl.run.attempt"] == 3
    assert resource["host.name"] == "node-2"
    assert resource["slurm.job.id"] == "77"
    assert resource["ray.job.id"] == "0100"
    assert resource["service.name"] == "trainer"
    assert resource["k8s.pod.name"] == "pod-1"
    assert resource["note"] == "a b"
    assert build(Declaration(run_id="r", attempt=9), environ)["rl.run.attempt"] == 9
    assert "rl.run.attempt" not in build(Declaration(), {"LONGPOLE_RUN_ATTEMPT": "two"})


@pytest.mark.parametrize(
    ("visible", "gpu_ids"),
    [
        ("GPU-aa, MIG-bb", ("GPU-aa", "MIG-bb")),
        ("0,1", None),
        ("GPU-aa,1", None),
        ("", None),
    ],
)
def test_gpus_are_named_by_uuid_only(visible: str, gpu_ids: tuple[str, ...] | None) -> None:
    assert build(Declaration(), {"CUDA_VISIBLE_DEVICES": visible}).get("rl.gpu.ids") == gpu_ids


def test_model_configuration_is_kept_small() -> None:
    class Configuration:
        def to_dict(self) -> dict[str, object]:
            return {
                "hidden_size": 2048,
                "rope_scaling": {"factor": 4},
                "text_config": {"vocab_size": 151936},
                "layer_types": ["full", "sliding"],
                "id2label": {str(n): "x" for n in range(1000)},
                "huge": list(range(10_000)),
                "dtype": object(),
            }

    assert json.loads(encode_model_config(Configuration()) or "") == {
        "hidden_size": 2048,
        "text_config": {"vocab_size": 151936},
        "layer_types": ["full", "sliding"],
    }
    assert encode_model_config("Qwen") is None
    assert encode_model_config({"x": "y" * 100_000}) is None


def test_process_start_is_in_the_past_and_stays() -> None:
    start_ns = read_process_start_ns(os.getpid())
    assert 0 < time.time_ns() - start_ns < 24 * 3600 * 1_000_000_000
    assert read_process_start_ns(os.getpid()) == start_ns
    assert read_process_start_ns(1 << 30) > start_ns


def test_says_which_pod_it_runs_in_unless_the_platform_says_it(tmp_path: Path) -> None:
    environ = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "HOSTNAME": "trainer-0",
        "POD_NAMESPACE": "rl",
        "OTEL_RESOURCE_ATTRIBUTES": "k8s.pod.name=trainer-0-with-a-long-name",
    }
    resource = build_resource(Declaration(), environ, 41, 99, tmp_path)
    assert resource["k8s.pod.name"] == "trainer-0-with-a-long-name"
    assert resource["k8s.namespace.name"] == "rl"
