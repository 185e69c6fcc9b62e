"""Rows that come again: within a request, in a range, under another id; all counts agree."""

from pathlib import Path

from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.store_opening import OpenedStore, opened_store

ROLLUPS = ("gpu_samples_10s", "gpu_samples_60s")


def count_rolled_up(opened: OpenedStore) -> set[int]:
    return {
        int(
            opened.client.query(f"SELECT sum(utilization_ratio_count) FROM {table}")
            .column(0)[0]
            .as_py()
        )
        for table in ROLLUPS
    }


def count_samples(opened: OpenedStore) -> int:
    num_gpu, num_host = (
        opened.count(table, final=False) for table in ("gpu_samples", "host_samples")
    )
    assert num_gpu == num_host
    return num_gpu


def test_rollups_count_what_the_raw_tables_hold(tmp_path: Path):
    normalizer = Normalizer([])
    values = {"hw.id": "GPU-0", "gpu.index": 0}
    # The same GPU at the same time twice: one sample, the last word counts.
    gpus = otlp.gauge("hw.gpu.utilization", [(1.0, 0.5, values), (1.0, 0.7, values)])
    node = otlp.resource({"host.name": "node-0"})
    cpu = otlp.gauge("system.cpu.utilization", [(1.0, 0.1, {}), (1.0, 0.2, {})])
    step = {"rl.loop.iteration": 1, "rl.trajectory.id": "t"}
    span = otlp.span("rl.trajectory", 0.0, 1.0, step, trace=b"1" * 16, id=b"1" * 8)

    def make(times: int) -> Records:
        records = Records()
        for _ in range(times):
            metrics = otlp.metrics((node, [gpus, cpu]))
            normalizer.normalize("metrics", metrics, otlp.at(2), records)
            traces = otlp.traces((otlp.process("run"), [span, span]))
            normalizer.normalize("traces", traces, otlp.at(2), records)
        return records

    with opened_store(tmp_path) as opened:
        opened.writer.write(make(1), "one request")
        assert count_samples(opened) == 1
        assert count_rolled_up(opened) == {1}
        # Without an id, or under another, the same samples are others: raw rows and rollups agree.
        opened.writer.write(make(2), "two requests in one range")
        assert count_samples(opened) == 3
        assert count_rolled_up(opened) == {3}
        # The same insert again is not.
        opened.writer.write(make(2), "two requests in one range")
        assert count_samples(opened) == 3
        assert count_rolled_up(opened) == {3}
        # A span is one by its identity, however often it came; raw spans are as they were sent.
        assert opened.count("trajectories") == 1
        assert opened.count("otel_traces", final=False) == 6
