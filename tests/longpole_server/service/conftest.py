from collections.abc import Generator

import pytest

from support.server_service import HandClock, ServiceBench, build_bench, opened_bench


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceBench]:
    # Opening an embedded store takes a second: one for the module, a run id for each test.
    with opened_bench(tmp_path_factory.mktemp("store")) as bench:
        yield bench


@pytest.fixture
def bench(opened: ServiceBench) -> ServiceBench:
    return build_bench(
        opened.reader,
        opened.writer,
        HandClock(),
        opened.alert_store,
        tokens=opened.tokens,
    )


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return f"project/{request.node.name}"
