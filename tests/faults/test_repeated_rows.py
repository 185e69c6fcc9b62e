"""Facts that come again, under the same batch id, another or none, split otherwise, after restarts.

Whoever reads finds each once: the reader of API and pages, people's own SQL, rollups.
"""

import itertools
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.signals import Signal
from longpole_server.model.records import Records
from longpole_server.read.free_queries import FreeQuery, QueryLimits, open_free_queries
from longpole_server.store.known_samples import KnownSamples
from longpole_server.store.writer import Writer
from support import otlp_builders as otlp
from support.otlp_pipeline import RecordingWriter, running_pipeline
from support.store_opening import OpenedStore, opened_store

ROLLUPS = ("gpu_samples_10s", "gpu_samples_60s")
SPANS, POINTS = 4, 6
_numbers = itertools.count()


@dataclass(frozen=True)
class Send:
    """A request: some of a run's facts, under which id, and whether the server restarts after."""

    signal: Signal
    facts: tuple[int, ...]
    batch_id: Literal["same", "new", "none"]
    restarts: bool


def make_send(signal: Signal, facts: int) -> st.SearchStrategy[Send]:
    return st.builds(
        Send,
        st.just(signal),
        st.lists(st.integers(0, facts - 1), min_size=1, max_size=facts).map(tuple),
        st.sampled_from(["same", "new", "none"]),
        st.booleans(),
    )


sends = make_send("traces", SPANS) | make_send("metrics", POINTS)


def make_body(run_id: str, send: Send) -> bytes:
    """A request of facts by number: spans alternate between samples and stages, points by kind."""
    sender = otlp.process(run_id, rl__run__attempt=1)
    if send.signal == "traces":
        trace = run_id.encode().rjust(16, b"-")[-16:]
        spans: list[Any] = []
        for fact in send.facts:
            identity: dict[str, Any] = {"trace": trace, "id": bytes([0] * 7 + [fact])}
            if fact % 2:
                spans.append(otlp.stage("gen", 1, fact, fact + 1, **identity))
            else:
                labels = {"rl.loop.iteration": 1, "rl.trajectory.id": f"t{fact}"}
                spans.append(otlp.span("rl.trajectory", fact, fact + 1.0, labels, **identity))
        return otlp.traces((sender, spans))
    node = otlp.resource({"host.name": run_id})
    gpu = {"hw.id": f"GPU-{run_id}", "gpu.index": 0}
    scalars: list[Any] = []
    hardware: list[Any] = []
    for fact in send.facts:
        at_s = float(fact // 3)
        match fact % 3:
            case 0:
                labels = {"rl.loop.iteration": fact}
                scalars.append(otlp.gauge("reward/mean", [(at_s, 0.5, labels)]))
            case 1:
                hardware.append(otlp.gauge("hw.gpu.utilization", [(at_s, 0.5, gpu)]))
                hardware.append(otlp.gauge("system.cpu.utilization", [(at_s, 0.5, {})]))
            case _:
                hardware.append(otlp.gauge("hw.power", [(at_s, 100.0, gpu)]))
    return otlp.metrics((sender, scalars), (node, hardware))


class StoringWriter(RecordingWriter):
    """Writes into a store."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def write(self, records: Records, token: str) -> None:
        self._writer.write(records, token)


def play(opened: OpenedStore, run_id: str, script: list[Send]) -> None:
    with TemporaryDirectory() as folder:
        waiting = list(script)
        while waiting:
            # A writer that knows nothing of what those before it wrote.
            client = opened.store._client
            writer = StoringWriter(Writer(client, KnownSamples(client)))
            with running_pipeline(Path(folder), writer, Normalizer([])) as pipeline:
                while waiting:
                    send = waiting.pop(0)
                    batch_id = {"same": f"{run_id}/{hash((send.signal, send.facts))}", "none": None}
                    new = f"{run_id}/new/{next(_numbers)}"
                    pipeline.accept(
                        send.signal, make_body(run_id, send), batch_id.get(send.batch_id, new)
                    )
                    if send.restarts:
                        break
                assert pipeline.drain(60.0)
                assert pipeline.stats.num_lost_requests == 0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[OpenedStore]:
    with opened_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(sends, min_size=2, max_size=8))
def test_each_fact_is_found_once(opened: OpenedStore, script: list[Send]):
    run_id = f"again{next(_numbers)}"
    play(opened, run_id, script)
    spans = {fact for send in script if send.signal == "traces" for fact in send.facts}
    points = {fact for send in script if send.signal == "metrics" for fact in send.facts}
    samples, stages = {f for f in spans if f % 2 == 0}, {f for f in spans if f % 2}
    scalars, used, watts = ({f for f in points if f % 3 == kind} for kind in range(3))
    expected = {
        f"otel_traces WHERE ResourceAttributes['rl.run.id'] = '{run_id}'": len(spans),
        f"trajectories WHERE run_id = '{run_id}'": len(samples),
        f"stage_spans WHERE run_id = '{run_id}'": len(stages),
        f"metric_points WHERE run_id = '{run_id}'": len(scalars),
        f"metric_series WHERE run_id = '{run_id}'": len(scalars),
        f"run_starts WHERE run_id = '{run_id}'": 1,
        f"gpu_samples WHERE host = '{run_id}' AND utilization_ratio IS NOT NULL": len(used),
        f"gpu_samples WHERE host = '{run_id}' AND power_watts IS NOT NULL": len(watts),
        f"host_samples WHERE host = '{run_id}'": len(used),
    }
    asked = open_free_queries(opened.store, QueryLimits())
    try:
        found = {source: count(asked, f"SELECT count() FROM {source}") for source in expected}
        assert found == expected
        for table in ROLLUPS:
            where = f"FROM {table} WHERE host = '{run_id}'"
            assert count(asked, f"SELECT sum(utilization_ratio_count) {where}") == len(used)
            assert count(asked, f"SELECT sum(power_watts_count) {where}") == len(watts)
    finally:
        asked.close()
    reader = opened.reader
    listed = reader.list_trajectories(run_id, 1, 1, None)
    assert {one.trajectory_id for one in listed} == {f"t{fact}" for fact in samples}
    assert len(listed) == len(samples)
    assert len(reader.list_stage_spans(run_id, 1, 1)) == len(stages)
    series = reader.get_metrics(run_id, ["reward/mean"]).get("reward/mean", [])
    assert [step for step, _, _ in series] == sorted(scalars)


def count(asked: Any, sql: str) -> int:
    answer = asked.answer(FreeQuery(sql, form="JSONCompact"))
    return int(orjson.loads(answer.body)["data"][0][0])


def count_rolled_up(opened: OpenedStore) -> set[int]:
    sums = (
        opened.client.query(f"SELECT sum(utilization_ratio_count) FROM {table} WHERE host = 'node'")
        for table in ROLLUPS
    )
    return {int(each.column(0)[0].as_py()) for each in sums}


def test_within_a_request_the_last_word_counts(opened: OpenedStore):
    values = {"hw.id": "GPU-node", "gpu.index": 0}
    gpus = otlp.gauge("hw.gpu.utilization", [(1.0, 0.5, values), (1.0, 0.7, values)])
    cpu = otlp.gauge("system.cpu.utilization", [(1.0, 0.1, {}), (1.0, 0.2, {})])
    records = Records()
    for _ in range(2):
        body = otlp.metrics((otlp.resource({"host.name": "node"}), [gpus, cpu]))
        Normalizer([]).normalize("metrics", body, otlp.at(2), records)
    opened.writer.write(records, "two requests in one range")
    assert count_rolled_up(opened) == {1}
    for table in ("gpu_samples", "host_samples"):
        assert opened.count(table, "host = 'node'", final=False) == 1
    used = opened.client.query(
        "SELECT toFloat64(utilization_ratio) FROM gpu_samples WHERE host = 'node'"
    )
    assert used.column(0).to_pylist() == [0.7]
