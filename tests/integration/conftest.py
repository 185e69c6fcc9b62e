from collections.abc import Generator
from pathlib import Path

import pytest

from support.server_process import ServerProcess


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServerProcess]:
    """One server for all tests that leave it as it is; each uses its own run ids."""
    process = ServerProcess(tmp_path_factory.mktemp("server"), "--no-agent")
    yield process
    assert process.interrupt() == 0, process.log


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path
