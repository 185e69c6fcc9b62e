"""The ready-made Grafana dashboards: sound documents whose every query runs through the SQL door.

Grafana expands macros and variables before it asks. What its ClickHouse plugin makes of them is
written down here after the plugin's source; the plugin itself is not run.
"""

import json
import re
from collections.abc import Generator, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from longpole_server.model.records import EngineSample, GpuSample, Records
from longpole_server.read import open_reader
from longpole_server.read.alerts import open_alert_reader
from longpole_server.read.free_queries import FreeQueries, FreeQuery, QueryLimits, open_free_queries
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.store import Store, StoreConfig, open_store
from support.server_runs import BEGIN_NS, RunScript, S, merge
from support.server_service import HandClock, build_bench
from support.store_records import make_raw_span

FOLDER = Path(__file__).parents[2] / "dashboards" / "grafana"
DASHBOARDS = sorted(FOLDER.glob("*.json"))
BEGIN_S = BEGIN_NS // S
VALUES = {
    "${run:singlequote}": "'run'",
    "${metric:singlequote}": "'actor/entropy','perf/throughput'",
}
# A run without trouble has no alerts.
MAY_BE_EMPTY = {"Alerts"}


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Generator[FreeQueries]:
    store = open_store(StoreConfig(directory=tmp_path_factory.mktemp("store")))
    write_run(store)
    queries = open_free_queries(store, QueryLimits())
    yield queries
    queries.close()
    store.close()


def write_run(store: Store) -> None:
    """Store three closed steps with samples, GPUs, engines, scalars and raw spans."""
    reader = open_reader(store)
    alerts = AlertStore(open_alert_reader(store), store.new_alert_writer())
    bench = build_bench(reader, SerialWriter(store.writer), HandClock(), alerts)
    run = RunScript("run", gpu_ids=("GPU-0",))
    config = {"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16}
    bench.write(run.start(gpu_count=1, model_config=json.dumps(config)), hardware())
    for step in range(1, 4):
        start_s = 10.0 * step
        logged = {"actor/entropy": 0.5, "perf/throughput": 100.0, "perf/mfu/actor": 0.3}
        bench.write(
            run.sample(f"sample-{step}", start_s, start_s + 5.0, step=step),
            run.scalars(step, start_s + 9.0, logged),
            run.whole_step(step, start_s),
        )
    bench.joiner.join()
    bench.write(run.end(50.0))
    alerts.writer.close()
    alerts.reader.close()
    reader.close()


def hardware() -> Records:
    """What GPUs and engines report over the run."""
    at_ns = [BEGIN_NS + second * S for second in range(50)]
    gpu = [
        GpuSample(
            "node-0",
            "GPU-0",
            0,
            ts_ns,
            "NVIDIA H100 80GB HBM3",
            memory_used_bytes=1,
            sm_active_ratio=0.5,
            power_watts=500.0,
        )
        for ts_ns in at_ns
    ]
    engine = [
        EngineSample("run", 1, "replica-0", name, ts_ns, 0.5)
        for name in ("vllm:kv_cache_usage_perc", "vllm:num_requests_running")
        for ts_ns in at_ns
    ]
    return merge(
        Records(gpu_samples=gpu),
        Records(engine_samples=engine, raw_spans=[make_raw_span(BEGIN_NS)]),
    )


def find_queries(dashboard: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield title and SQL of every panel, variable and annotation."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["rawSql"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield f"${variable['name']}", variable["query"]["rawSql"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["target"]["rawSql"]


def expand(sql: str) -> str:
    """Return the SQL that the plugin sends for a range that covers the run, 10 s a point."""
    first, last = f"toDateTime({BEGIN_S - 10})", f"toDateTime({BEGIN_S + 60})"
    sql = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 >= {first} AND \1 <= {last}", sql)
    sql = re.sub(
        r"\$__timeInterval\((\w+)\)", r"toStartOfInterval(toDateTime(\1), INTERVAL 10 second)", sql
    )
    for variable, value in VALUES.items():
        sql = sql.replace(variable, value)
    return sql


def list_cases() -> list[Any]:
    return [
        pytest.param(title, sql, id=f"{path.stem}: {title}")
        for path in DASHBOARDS
        for title, sql in find_queries(json.loads(path.read_text()))
    ]


@pytest.mark.parametrize(("title", "sql"), list_cases())
def test_every_query_answers_with_rows(queries: FreeQueries, title: str, sql: str):
    asked = expand(sql)
    assert "$" not in asked, "a macro or a variable that is not known here"
    rows = json.loads(queries.answer(FreeQuery(asked, form="JSON")).body)["data"]
    assert rows or title in MAY_BE_EMPTY


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_anywhere(path: Path):
    """Nothing of one Grafana's own: the data source is asked for, the number is given on import."""
    dashboard = json.loads(path.read_text())
    assert dashboard["id"] is None
    assert dashboard["uid"].startswith("longpole-")
    (asked,) = dashboard["__inputs"]
    assert asked["pluginId"] == "grafana-clickhouse-datasource"
    for panel in dashboard["panels"]:
        assert panel["type"] == "row" or panel["datasource"]["uid"] == "${datasource}"
        assert panel["type"] == "row" or panel["description"]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_numbers_of_their_own_and_do_not_overlap(path: Path):
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
