from collections.abc import Generator
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from longpole_server.api.application import ApiParts, create_api
from longpole_server.api.own_state import OwnMetric
from longpole_server.service.importing import LogImporter
from support.server_runs import RunScript, gpu_samples, merge
from support.server_service import ServiceBench, opened_bench

RUN_ID = "project/seven of nine"
OTHER_RUN_ID = "project/other"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Generator[ServiceBench]:
    """A store with a run of three closed steps and an open one, and a run that is over."""
    with opened_bench(tmp_path_factory.mktemp("store")) as opened:
        run = RunScript(RUN_ID, gpu_ids=("GPU-a",))
        opened.clock.seconds = 31.0
        opened.write(
            run.start(gpu_count=1, system="verl", config={"group_size": "8"}),
            gpu_samples("GPU-a", 0, 0, 31, 0.9),
        )
        opened.joiner.join()
        for step in (1, 2, 3):
            start_s = 10.0 * (step - 1)
            opened.write(
                run.whole_step(step, start_s),
                run.scalars(step, start_s + 10.1, {"critic/score/mean": step / 10}),
                merge(
                    *(
                        run.sample(f"t{step}-{n}", start_s, start_s + 1.0 + n, step, group_id="g")
                        for n in range(3)
                    )
                ),
            )
        other = RunScript(OTHER_RUN_ID, pid=5_000, host="node-1")
        opened.write(other.start(gpu_count=1, config={"group_size": "16"}), other.end(30.0))
        for step in (1, 2):
            start_s = 10.0 * (step - 1)
            opened.write(other.stages(step, start_s), other.loop(step, start_s, tokens=2_000))
        opened.write(run.announce(4, "step", 30.0), run.announce(4, "gen", 30.1))
        yield opened


@pytest.fixture(scope="module")
def client(bench: ServiceBench) -> Generator[TestClient]:
    # As in the program, where its own thread derives what an import brings.
    bench.closer.start()
    api = create_api(
        ApiParts(
            service=bench.service,
            importer=LogImporter(bench.writer, bench.closer, bench.reader),
            otlp_routes=(),
            check_ready=lambda: {"store": True},
            collect_metrics=lambda: [OwnMetric("longpole_things_total", "counter", "things", 3)],
            door=None,
            max_import_bytes=1 << 20,
        )
    )
    client = TestClient(api, raise_server_exceptions=False)
    with client:
        yield client
    bench.closer.close()


@pytest.fixture
def run_path() -> str:
    return f"/api/v1/runs/{quote(RUN_ID, safe='')}"
