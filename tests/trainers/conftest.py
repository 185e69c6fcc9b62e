"""Real trainers in environments of their own: `make trainers` makes them and runs these tests."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.agent_process import AgentProcess
from support.server_process import ServerProcess
from support.trainers import PROGRAMS, RunTrainer, find_python


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    directory = tmp_path / "server"
    directory.mkdir()
    process = ServerProcess(directory, "--no-agent", "--no-otlp")
    yield process
    process.kill()


@pytest.fixture
def agent(server: ServerProcess, tmp_path: Path) -> Iterator[AgentProcess]:
    directory = tmp_path / "agent"
    directory.mkdir()
    process = AgentProcess(directory, server.url, "--no-nvml")
    process.ports()
    yield process
    process.stop()


@pytest.fixture
def run_trainer(agent: AgentProcess) -> RunTrainer:
    """Run a program in a trainer's environment, with the agent's address in its own."""

    def run(
        *command: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        address = f"http://127.0.0.1:{agent.ports()['http']}"
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        completed = subprocess.run(
            command,
            cwd=PROGRAMS,
            env={
                **variables,
                "LONGPOLE_ENDPOINT": address,
                "RL_INSIGHT_SERVER_URL": address,
                **(environment or {}),
            },
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=500,
        )
        assert completed.returncode == 0, completed.stdout[-5000:]
        return completed

    return run


@pytest.fixture
def trainer_python(request: pytest.FixtureRequest) -> str:
    marker = request.node.get_closest_marker("trainer")
    assert marker is not None
    name = str(marker.args[0])
    python = find_python(name)
    if not python.exists():
        pytest.skip(f"no environment of {name}: make trainers")
    return str(python)
