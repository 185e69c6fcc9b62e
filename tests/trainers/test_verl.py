"""A whole `main_ppo` of verl on a CPU, by the door of RL-Insight's client and by the plugin."""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.agent_waiting import wait_until
from support.server_process import ServerProcess
from support.trainers import RunTrainer

pytestmark = [pytest.mark.integration, pytest.mark.trainer("verl"), pytest.mark.timeout(900)]

STEPS = 3
STAGES = ("gen", "old_log_prob", "adv", "update_actor", "update_weights")
RANK_STAGES = ("old_log_prob", "update_actor")
LANES = (
    "SELECT role, stage, pid, count() AS n FROM stage_spans FINAL WHERE run_id = '{run}' "
    "AND role != 'controller' GROUP BY role, stage, pid FORMAT JSONEachRow"
)


def read_file_log(directory: Path, experiment: str = "ppo") -> dict[int, Mapping[str, Any]]:
    lines = (directory / "logs" / "proj" / f"{experiment}.jsonl").read_text().splitlines()
    return {row["step"]: row["data"] for row in map(json.loads, lines)}


def wait_for_steps(
    server: ServerProcess, count: int, experiment: str = "ppo"
) -> list[dict[str, Any]]:
    page = server.wait_for(
        f"/runs/proj%2F{experiment}/steps",
        lambda page: len([step for step in page["steps"] if step["closed_by"]]) >= count,
    )
    return page["steps"]


def read_lanes(server: ServerProcess, experiment: str) -> list[dict[str, Any]]:
    query = LANES.format(run=f"proj/{experiment}")
    text = server.client.get("/clickhouse/", params={"query": query}).text
    return [json.loads(line) for line in text.splitlines()]


def wait_for_rank_lanes(server: ServerProcess, experiment: str, num_steps: int) -> None:
    """Each stage of the ranks was run once a step: neither lost, nor told by two, nor mixed."""

    def read() -> dict[str, int]:
        lanes = read_lanes(server, experiment)
        return {lane["stage"]: int(lane["n"]) for lane in lanes if lane["role"] == "worker"}

    expected = dict.fromkeys(RANK_STAGES, num_steps)
    wait_until(lambda: expected.items() <= read().items())
    assert expected.items() <= read().items()


def test_two_trainings_by_one_variable_each_have_the_stage_seconds_of_their_own_log(
    server: ServerProcess, trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    """One speaks to the agent of its node, the other to the server itself."""
    port = "++trainer.rl_insight.prometheus.metrics_report_port"
    trainings: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
        "ppo": ((), {}),
        "direct": ((f"{port}=9093",), {"RL_INSIGHT_SERVER_URL": server.url}),
    }

    def train(experiment: str) -> None:
        overrides, variables = trainings[experiment]
        run_trainer(
            *("bash", "verl_ppo.sh", trainer_python, str(tmp_path / experiment)),
            *overrides,
            environment={
                "LOGGERS": "[console,file,rl_insight]",
                "STEPS": str(STEPS),
                "EXPERIMENT": experiment,
                "LONGPOLE_VERL": "off",
                **variables,
            },
        )

    with ThreadPoolExecutor() as pool:
        list(pool.map(train, trainings))
    for experiment in trainings:
        least = STEPS - 1 if experiment == "direct" else STEPS
        steps = wait_for_steps(server, least, experiment)
        written = read_file_log(tmp_path / experiment, experiment)
        numbers = sorted(written)
        if experiment == "direct":
            # Nobody holds a trainer back that does not pass an agent: its page may end too soon.
            numbers = numbers[: max(STEPS - 1, len(steps))]
        assert [step["step"] for step in steps] == numbers
        for step in steps:
            own = written[step["step"]]
            assert step["closed_by"] == "metrics"
            assert step["duration_s"] == pytest.approx(own["timing_s/step"], abs=1e-9)
            live = {stage["stage"]: stage["inclusive_s"] for stage in step["stages"]}
            for stage in STAGES:
                assert live[stage] == pytest.approx(own[f"timing_s/{stage}"], abs=1e-9)
        assert server.get(f"/runs/proj%2F{experiment}")["system"] == "verl"
        wait_for_rank_lanes(server, experiment, len(steps))
    # One process a training runs the stages of its one rank. Others may have been seen at work
    # by their titles.
    pids = [
        {lane["pid"] for lane in read_lanes(server, name) if lane["stage"] in RANK_STAGES}
        for name in trainings
    ]
    assert [len(each) for each in pids] == [1, 1]
    assert pids[0] != pids[1]


def test_the_plugin_tells_windows_samples_and_the_model(
    server: ServerProcess, trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(
        "bash", "verl_ppo.sh", trainer_python, str(tmp_path),
        environment={"LOGGERS": "[console,file,rl_insight]", "STEPS": str(STEPS)},
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
        samples = server.get(f"/runs/proj%2Fppo/steps/{step['step']}/trajectories")["trajectories"]
        assert len(samples) == 8
        assert len({sample["group_id"] for sample in samples}) == 4
        mean = sum(sample["reward"] for sample in samples) / len(samples)
        assert mean == pytest.approx(own["critic/score/mean"], abs=1e-4)
        tokens = sum(sample["input_tokens"] + sample["output_tokens"] for sample in samples)
        assert tokens == own["perf/total_num_tokens"]
        assert all(sample["generate_s"] > 0 for sample in samples)
        assert all(sample["score_s"] is not None for sample in samples)
        assert {sample["replica"] for sample in samples} == {"replica_0"}
    run = server.wait_for("/runs/proj%2Fppo", lambda run: run["state"] == "finished")
    assert (run["system"], run["system_version"], run["algorithm"]) == ("verl", "0.9.1", "grpo")
    assert run["mode"] == "sync"
    assert run["model_name"] == "tiny"
    # RL-Insight's client tells what the ranks do as well: it is there once.
    updates = [lane for lane in read_lanes(server, "ppo") if lane["stage"] == "update_actor"]
    assert [(lane["role"], int(lane["n"])) for lane in updates] == [("hybrid", STEPS)]


def test_without_a_receiver_the_plugin_changes_nothing(
    trainer_python: str, run_trainer: RunTrainer, tmp_path: Path
) -> None:
    run_trainer(
        "bash", "verl_ppo.sh", trainer_python, str(tmp_path),
        environment={"STEPS": "2", "LONGPOLE_ENDPOINT": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert sorted(read_file_log(tmp_path)) == [1, 2]
