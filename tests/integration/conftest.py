from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from support.server_process import ServerProcess, StartServer


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """One server for all tests that leave it as it is; each uses its own run ids."""
    process = ServerProcess(tmp_path_factory.mktemp("server"), "--no-agent")
    yield process
    assert process.interrupt() == 0, process.log


@pytest.fixture
def start_server() -> Generator[StartServer]:
    """Starts servers; what a failing test leaves behind is killed."""
    started: list[ServerProcess] = []

    def start(
        directory: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        command: str = "up",
    ) -> ServerProcess:
        process = ServerProcess(directory, *arguments, environment=environment, command=command)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
