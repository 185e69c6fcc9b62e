"""A whole `main_ppo` of verl on a CPU, by the door of RL-Insight's client and by the plugin."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.server_process import ServerProcess
from support.trainers import RunTrainer

pytestmark = [pytest.mark.integration, pytest.mark.trainer("verl"), pytest.mark.timeout(900)]

STEPS = 3
RUN = "/runs/proj%2Fppo"
STAGES = ("gen", "old_log_prob", "adv", "update_actor", "update_weights")


def read_file_log(directory: Path) -> dict[int, Mapping[str, Any]]:
    lines = (directory / "logs" / "proj" / "ppo.jsonl").read_text().splitlines()
    return {row["step"]: row["data"] for row in map(json.loads, lines)}


def wait_for_steps(server: ServerProcess, count: int) -> list[dict[str, Any]]:
    page = server.wait_for(
        f"{RUN}/steps",
        lambda page: len([step for step in page["steps"] if step["closed_by"]]) >= count,
    )
    return page["steps"]


def test_one_variable_gives_the_stage_seconds_of_verl_s_own_log(
    server: ServerProcess, trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(
        "bash", "verl_ppo.sh", trainer_python, str(tmp_path),
        environment={
            "LOGGERS": "[console,file,rl_insight]", "STEPS": str(STEPS), "LONGPOLE_VERL": "off",
        },
    )  # fmt: skip
    steps = wait_for_steps(server, STEPS)
    written = read_file_log(tmp_path)
    assert [step["step"] for step in steps] == sorted(written)
    for step in steps:
        own = written[step["step"]]
        assert step["closed_by"] == "metrics"
        assert step["duration_s"] == pytest.approx(own["timing_s/step"], abs=1e-9)
        live = {stage["stage"]: stage["inclusive_s"] for stage in step["stages"]}
        for stage in STAGES:
            assert live[stage] == pytest.approx(own[f"timing_s/{stage}"], abs=1e-9)
    assert server.get(RUN)["system"] == "verl"


def test_the_plugin_tells_windows_samples_and_the_model(
    server: ServerProcess, trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(
        "bash", "verl_ppo.sh", trainer_python, str(tmp_path),
        environment={"LOGGERS": "[console,file]", "STEPS": str(STEPS)},
    )  # fmt: skip
    steps = wait_for_steps(server, STEPS)
    written = read_file_log(tmp_path)
    assert [step["step"] for step in steps] == sorted(written)
    for step in steps:
        own = written[step["step"]]
        assert step["closed_by"] == "loop"
        assert step["duration_s"] == pytest.approx(own["timing_s/step"], abs=0.05)
        live = {stage["stage"]: stage for stage in step["stages"]}
        for stage in STAGES:
            assert live[stage]["source"] == "span"
            assert live[stage]["inclusive_s"] == pytest.approx(own[f"timing_s/{stage}"], abs=0.05)
        samples = server.get(f"{RUN}/steps/{step['step']}/trajectories")["trajectories"]
        assert len(samples) == 8
        assert len({sample["group_id"] for sample in samples}) == 4
        mean = sum(sample["reward"] for sample in samples) / len(samples)
        assert mean == pytest.approx(own["critic/score/mean"], abs=1e-4)
        tokens = sum(sample["input_tokens"] + sample["output_tokens"] for sample in samples)
        assert tokens == own["perf/total_num_tokens"]
        assert all(sample["generate_s"] > 0 for sample in samples)
        assert all(sample["score_s"] is not None for sample in samples)
    run = server.wait_for(RUN, lambda run: run["state"] == "finished")
    assert (run["system"], run["system_version"], run["algorithm"]) == ("verl", "0.9.1", "grpo")
    assert run["mode"] == "sync"
    assert run["model_name"] == "tiny"


def test_without_a_receiver_the_plugin_changes_nothing(
    trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(
        "bash", "verl_ppo.sh", trainer_python, str(tmp_path),
        environment={"STEPS": "2", "LONGPOLE_ENDPOINT": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert sorted(read_file_log(tmp_path)) == [1, 2]
