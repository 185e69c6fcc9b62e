from collections.abc import Generator
from pathlib import Path

import pytest

from support.store_opening import OpenedStore, opened_store


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[OpenedStore]:
    directory: Path = tmp_path_factory.mktemp("store")
    with opened_store(directory) as opened:
        yield opened
