"""Real trainers in environments of their own: `make trainers` makes them and runs these tests."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from support.server_process import ServerProcess
from support.trainers import PROGRAMS, find_python

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    directory = tmp_path / "server"
    directory.mkdir()
    process = ServerProcess(directory)
    yield process
    process.stop()


@pytest.fixture
def run_trainer(server: ServerProcess) -> Run:
    """Run a program in a trainer's environment, with the agent's address in its own."""

    def run(
        trainer: str, *command: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        agent = f"http://127.0.0.1:{server.ports['otlp_http']}"
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        completed = subprocess.run(
            command,
            cwd=PROGRAMS,
            env={
                **variables,
                "LONGPOLE_ENDPOINT": agent,
                "RL_INSIGHT_SERVER_URL": agent,
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
    name = request.node.get_closest_marker("trainer").args[0]
    python = find_python(name)
    if not python.exists():
        pytest.skip(f"no environment of {name}: make trainers")
    return str(python)
