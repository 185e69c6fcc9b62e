"""A GRPO training of TRL with the callback: the run, its steps, stages, samples and rewards."""

import json
from pathlib import Path

import pytest

from support.server_process import ServerProcess
from support.trainers import RunTrainer

pytestmark = [pytest.mark.integration, pytest.mark.trainer("trl"), pytest.mark.timeout(600)]

STEPS = 3
RUN = "/runs/trl%2Fgrpo"


def test_a_training_is_recorded(
    server: ServerProcess, trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(trainer_python, "trl_grpo.py", str(tmp_path), str(STEPS))
    run = server.wait_for(RUN, lambda run: run["state"] == "finished")
    assert (run["system"], run["algorithm"], run["project"]) == ("trl", "grpo", "proj")
    page = server.wait_for(
        f"{RUN}/steps",
        lambda page: len([step for step in page["steps"] if step["verdict"] is not None]) >= STEPS,
    )
    rows = [json.loads(line) for line in (tmp_path / "logs.jsonl").read_text().splitlines()]
    # The last row sums the training up.
    logged = [row for row in rows if "reward" in row["data"]]
    times = {row["step"]: row["data"]["step_time"] for row in logged}
    for step in page["steps"]:
        assert step["closed_by"] == "loop"
        stages = {stage["stage"]: stage for stage in step["stages"]}
        assert {"gen", "reward", "update_actor"} <= stages.keys()
        assert {stage["source"] for stage in stages.values()} == {"span"}
        # TRL's own clock leaves out what lies between its micro-steps.
        assert step["duration_s"] >= times[step["step"]] * 0.9
        covered = sum(stage["exclusive_s"] for stage in stages.values())
        assert covered > 0.7 * step["duration_s"]
    rewards = server.get(f"{RUN}/metrics?name=reward")["points"]
    assert [(point["step"], point["value"]) for point in rewards] == [
        (row["step"], row["data"]["reward"]) for row in logged
    ]
    for row in logged:
        samples = server.get(f"{RUN}/steps/{row['step']}/trajectories")["trajectories"]
        assert len(samples) == 8
        assert len({sample["group_id"] for sample in samples}) == 2
        mean = sum(sample["reward"] for sample in samples) / len(samples)
        assert mean == pytest.approx(row["data"]["reward"], rel=1e-4)
        longest = max(sample["output_tokens"] for sample in samples)
        assert longest == row["data"]["completions/max_length"]
        assert all(sample["generate_s"] > 0 for sample in samples)
