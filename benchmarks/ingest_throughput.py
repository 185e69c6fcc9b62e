"""How many spans a second one ingest thread turns into records.

Run by hand: `python benchmarks/ingest_throughput.py [--spans 100000]`. Seconds of CPU, so that a
busy machine says nearly the same: parse plus normalise for trajectories with children (what a step
is mostly made of), plain spans of other libraries, and GPU points; spans request by request, and as
columns by the batch, which is what a server under load does. Then the same with the inserts into an
embedded store, all its threads counted until its merges are done; there each request has times and
ids of its own, since what comes twice is stored once.
"""

import argparse
import os
import struct
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole.conventions.gpus import GPU_METRICS
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.signals import Signal
from longpole_server.model.records import Records
from longpole_server.store import StoreConfig, open_store

BATCH = 512
CHILDREN = 5
GPUS = 1024
REQUESTS_PER_INSERT = 24
TIME = struct.Struct("<Q")
ID_BYTES = 8
# Of CPU in half a second: less is done by a process that has nothing to do.
QUIET_S = 0.03


def attribute(key: str, value: str | int | float) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    return KeyValue(key=key, value=AnyValue(double_value=value))


def describe_process() -> Resource:
    values: dict[str, str | int] = {
        "service.name": "trainer",
        "host.name": "node0",
        "process.pid": 17,
        "rl.process.start_ns": time.time_ns(),
        "rl.run.id": "bench",
        "rl.role": "controller",
    }
    return Resource(attributes=[attribute(key, value) for key, value in values.items()])


def make_trajectories() -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add(resource=describe_process()).scope_spans.add().spans
    now = time.time_ns()
    for index in range(BATCH // (CHILDREN + 1)):
        trace, root = os.urandom(16), os.urandom(8)
        values: dict[str, str | int | float] = {
            "rl.loop.iteration": 7,
            "rl.trajectory.id": f"sample-{index}",
            "rl.group.id": f"group-{index // 8}",
            "rl.trajectory.turns": 3,
            "rl.trajectory.status": "success",
            "gen_ai.usage.input_tokens": 512,
            "gen_ai.usage.output_tokens": 2048,
            "rl.reward.value": 0.5,
        }
        spans.add(
            trace_id=trace,
            span_id=root,
            name="rl.trajectory",
            start_time_unix_nano=now,
            end_time_unix_nano=now + 10**9,
            attributes=[attribute(key, value) for key, value in values.items()],
        )
        for child in range(CHILDREN):
            spans.add(
                trace_id=trace,
                span_id=os.urandom(8),
                parent_span_id=root,
                name="rl.generate" if child % 2 == 0 else "execute_tool python",
                start_time_unix_nano=now + child * 10**8,
                end_time_unix_nano=now + (child + 1) * 10**8,
                attributes=[attribute("rl.turn", child // 2)],
            )
    return request.SerializeToString()


def make_engine_requests() -> bytes:
    """Return requests as vLLM tells of them."""
    return make_plain_spans("llm_request")


def make_plain_spans(name: str = "app.work") -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add(resource=describe_process()).scope_spans.add().spans
    for index in range(BATCH):
        spans.add(
            trace_id=os.urandom(16),
            span_id=os.urandom(8),
            name=name,
            start_time_unix_nano=time.time_ns(),
            end_time_unix_nano=time.time_ns() + 10**9,
            attributes=[
                *(attribute(f"gen_ai.latency.part_{part}", 0.25) for part in range(4)),
                attribute("gen_ai.usage.prompt_tokens", 100 + index),
                attribute("gen_ai.usage.completion_tokens", 900),
                attribute("gen_ai.request.id", f"request-{index}"),
                attribute("gen_ai.response.model", "model"),
            ],
        )
    return request.SerializeToString()


class FreshBodies:
    """A request of spans, of its own time and with ids of its own whenever it is made.

    What comes twice is stored once, and what is stored lies in the order of time. Parents keep
    their children.

    Args:
        body: The request.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        # Where a span's id stands, that of its parent (0 for none), its start and its end.
        self._places: list[tuple[int, int, int, int, int]] = []
        self._numbers: dict[bytes, int] = {}
        after = 0
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in group.scope_spans:
                for span in scope.spans:
                    after = body.index(span.trace_id, after) + len(span.trace_id)
                    at = body.index(span.span_id, after)
                    parent = self._numbers.get(span.parent_span_id, 0)
                    parent_at = body.index(span.parent_span_id, at + ID_BYTES) if parent else 0
                    start = body.index(TIME.pack(span.start_time_unix_nano), at)
                    after = body.index(TIME.pack(span.end_time_unix_nano), start)
                    self._places.append((at, parent_at, parent, start, after))
                    self._numbers[span.span_id] = len(self._places)

    def make(self) -> bytes:
        """Return the request, made now."""
        made = bytearray(self._body)
        ids = os.urandom(ID_BYTES * (len(self._places) + 1))
        now_ns = time.time_ns()
        for number, (at, parent_at, parent, start, end) in enumerate(self._places, 1):
            made[at : at + ID_BYTES] = ids[ID_BYTES * number : ID_BYTES * (number + 1)]
            if parent:
                own = ids[ID_BYTES * parent : ID_BYTES * (parent + 1)]
                made[parent_at : parent_at + ID_BYTES] = own
            TIME.pack_into(made, start, now_ns + number)
            TIME.pack_into(made, end, now_ns + number + 10**9)
        return bytes(made)


def make_gpu_points() -> bytes:
    request = ExportMetricsServiceRequest()
    for node in range(GPUS // 8):
        resource = Resource(
            attributes=[
                attribute("service.name", "longpole-agent"),
                attribute("host.name", f"node{node}"),
            ]
        )
        metrics = request.resource_metrics.add(resource=resource).scope_metrics.add().metrics
        for kind in GPU_METRICS:
            gauge = metrics.add(name=kind.metric, unit=kind.unit).gauge
            for gpu in range(8):
                gauge.data_points.add(
                    time_unix_nano=time.time_ns() // 10**9 * 10**9,
                    as_double=0.5,
                    attributes=[
                        attribute("hw.id", f"GPU-{node}-{gpu}"),
                        attribute("gpu.index", gpu),
                        attribute("hw.model", "NVIDIA H100 80GB HBM3"),
                    ],
                )
    return request.SerializeToString()


def measure(name: str, signal: Signal, body: bytes, num_items: int, repeats: int) -> None:
    normalizer = Normalizer()
    normalizer.normalize(signal, body, time.time_ns(), Records())
    started = time.process_time()
    for _ in range(repeats):
        normalizer.normalize(signal, body, time.time_ns(), Records())
    report(name, num_items * repeats, time.process_time() - started)


def measure_columns(name: str, body: bytes, repeats: int) -> None:
    normalizer = Normalizer()
    requests = [(body, time.time_ns())] * REQUESTS_PER_INSERT
    normalizer.normalize_many("traces", requests, Records())
    num_batches = max(1, repeats // REQUESTS_PER_INSERT)
    started = time.process_time()
    for _ in range(num_batches):
        normalizer.normalize_many("traces", requests, Records())
    num_spans = num_batches * REQUESTS_PER_INSERT * BATCH
    report(name, num_spans, time.process_time() - started)


def measure_with_store(name: str, body: bytes, repeats: int, *, by_batch: bool) -> None:
    normalizer = Normalizer()
    num_batches = max(1, repeats // REQUESTS_PER_INSERT)
    fresh = FreshBodies(body)
    with TemporaryDirectory() as directory:
        store = open_store(StoreConfig(directory=Path(directory) / "store"))
        spent_s = 0.0
        for batch in range(num_batches):
            requests = [(fresh.make(), time.time_ns()) for _ in range(REQUESTS_PER_INSERT)]
            started_s = time.process_time()
            records = Records()
            if not by_batch or not normalizer.normalize_many("traces", requests, records):
                for each, received_ns in requests:
                    normalizer.normalize("traces", each, received_ns, records)
            store.writer.write(records, f"benchmark/{batch}")
            spent_s += time.process_time() - started_s
        spent_s += wait_for_merges()
        report(name, num_batches * REQUESTS_PER_INSERT * BATCH, spent_s)
        store.close()


def wait_for_merges() -> float:
    """Wait until the process does nothing more; return the seconds of CPU that took."""
    begun_s = last_s = time.process_time()
    while True:
        time.sleep(0.5)
        now_s = time.process_time()
        if now_s - last_s < QUIET_S:
            return now_s - begun_s
        last_s = now_s


def report(name: str, num_items: int, seconds: float) -> None:
    print(f"{name:<40} {num_items / seconds:>10,.0f} /s {seconds / num_items * 1e6:>8.1f} us each")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=100_000)
    arguments = parser.parse_args()
    repeats = max(1, arguments.spans // BATCH)
    print(f"batches of {BATCH} spans, per second of CPU")
    for name, body in (
        ("trajectories, children", make_trajectories()),
        ("plain spans, 8 values", make_plain_spans()),
        ("requests of engines", make_engine_requests()),
    ):
        measure(name, "traces", body, BATCH, repeats)
        measure_columns(f"{name}, columns", body, repeats)
        measure_with_store(f"{name}, stored", body, repeats, by_batch=False)
        measure_with_store(f"{name}, columns, stored", body, repeats, by_batch=True)
    points = GPUS * len(GPU_METRICS)
    measure(f"points of {GPUS} GPUs", "metrics", make_gpu_points(), points, repeats // 40 + 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
