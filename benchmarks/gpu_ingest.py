"""What samples of 1,024 GPUs, one a second with all fields, cost the server, and what agents cost.

Run by hand: `python benchmarks/gpu_ingest.py [--seconds 20]`. 128 nodes of 8 GPUs send what an
agent sends: one request a second each, with a batch id, over one connection each. CPU is that of
all threads of the server, from the request to the rows with their rollups. Then one real agent with
8 simulated GPUs: its CPU and memory. The budgets are 35 % of a core, and 1 % of a core and 80 MiB.
NVML's own cost is not in it. The peer beside the agent is OpenTelemetry's SDK with the same gauges,
sampled once a second and encoded for OTLP, in a process of its own.
"""

import argparse
import json
import sys
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psutil
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ingest_throughput import attribute
from longpole.conventions.gpus import GPU_METRICS
from served import Served, describe_machine, open_server, run_program

NODES, GPUS = 128, 8
SENDERS = 4
LEVELS = {metric.column: 0.5 for metric in GPU_METRICS if metric.column.endswith("_ratio")} | {
    "memory_used_bytes": 60_000_000_000,
    "power_watts": 512.3,
    "temperature_celsius": 61.0,
    "sm_clock_hz": 1.98e9,
    "clocks_event_reasons": 0,
    "nvlink_rx_bytes_per_s": 1e9,
    "nvlink_tx_bytes_per_s": 1e9,
    "pcie_rx_bytes_per_s": 1e8,
    "pcie_tx_bytes_per_s": 1e8,
}


def make_request(node: int, ts_ns: int) -> bytes:
    request = ExportMetricsServiceRequest()
    values = {"service.name": "longpole-agent", "host.name": f"node{node}", "process.pid": 7}
    resource = Resource(attributes=[attribute(key, value) for key, value in values.items()])
    metrics = request.resource_metrics.add(resource=resource).scope_metrics.add().metrics
    for kind in GPU_METRICS:
        gauge = metrics.add(name=kind.metric, unit=kind.unit).gauge
        for gpu in range(GPUS):
            gauge.data_points.add(
                time_unix_nano=ts_ns,
                as_double=(node * GPUS + gpu + ts_ns // 10**9) % 97 / 97,
                attributes=[
                    attribute("hw.id", f"GPU-{node}-{gpu}"),
                    attribute("gpu.index", gpu),
                    attribute("hw.type", "gpu"),
                    attribute("hw.model", "NVIDIA H100 80GB HBM3"),
                ],
            )
    return request.SerializeToString()


def send_nodes(address: str, nodes: range, seconds: int) -> int:
    """Send one request a second for each of some nodes; return how many were taken."""
    parts = urlsplit(address)
    connections = [HTTPConnection(parts.hostname or "", parts.port, timeout=30) for _ in nodes]
    taken = 0
    boot, begun_s = time.time_ns(), time.monotonic()
    for second in range(seconds):
        # One each, also when the machine is late: a second sample of a time is none.
        ts_ns = (boot // 10**9 + second) * 10**9
        for place, node in enumerate(nodes):
            # Spread over the second, as nodes are.
            time.sleep(max(0.0, begun_s + second + place / len(nodes) - time.monotonic()))
            headers = {
                "Content-Type": "application/x-protobuf",
                "longpole-batch-id": f"node{node}/{boot}/{second}",
            }
            taken += post(connections[place], make_request(node, ts_ns), headers)
    return taken


def post(connection: HTTPConnection, body: bytes, headers: dict[str, str]) -> bool:
    """Send a request, again when the server had closed an idle connection."""
    for _ in range(3):
        with suppress(ConnectionError, HTTPException):
            connection.request("POST", "/v1/metrics", body, headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status == 200
        connection.close()
    return False


def measure_server(served: Served, seconds: int) -> None:
    step = NODES // SENDERS
    with get_context("spawn").Pool(SENDERS) as pool:
        # A node of its own: a second sample of one second would be none.
        pool.starmap(send_nodes, [(served.http, range(NODES, NODES + 1), 1)])
        served.wait_until_stored("gpu_samples", GPUS)
        before, cpu_s = served.count("gpu_samples"), served.cpu_s()
        started_s = time.monotonic()
        tasks = [
            (served.http, range(first, first + step), seconds) for first in range(0, NODES, step)
        ]
        taken = sum(pool.starmap(send_nodes, tasks))
        served.wait_until_stored("gpu_samples", before + taken * GPUS)
        wall_s = time.monotonic() - started_s
    cpu_s = served.cpu_s() - cpu_s
    rows = taken * GPUS
    print(
        f"server, {NODES * GPUS:,} GPUs: {rows:,} rows of {len(GPU_METRICS)} values "
        f"in {wall_s:.1f} s, CPU {cpu_s / seconds:.1%} of a core, "
        f"{cpu_s / rows / len(GPU_METRICS) * 1e6:.1f} us a value, {served.resident_mib():,.0f} MiB"
    )
    idle_s = served.cpu_s()
    time.sleep(5)
    print(f"server, nothing sent: CPU {(served.cpu_s() - idle_s) / 5:.1%} of a core")


def measure_agent(served: Served, directory: Path, seconds: int) -> None:
    gpus = directory / "gpus.json"
    entries = [
        {
            "index": index,
            "uuid": f"GPU-{index}",
            "model": "NVIDIA H100 80GB HBM3",
            "memory_total_bytes": 80_000_000_000,
            "pid": 17,
            "levels": LEVELS,
        }
        for index in range(8)
    ]
    gpus.write_text(json.dumps({"version": 1, "stage": "gen", "gpus": entries}))
    options = ["agent", "--server", served.http, "--no-nvml", "--simulated-gpus", str(gpus)]
    ports = ["--otlp-http-port", "0", "--otlp-grpc-port", "0", "--host-name", "agent-node"]
    with run_program(options, ports, ["--data-dir", str(directory / "agent")]) as agent:
        time.sleep(5)
        cpu_s = sum(agent.cpu_times()[:2])
        time.sleep(seconds)
        cpu_s = sum(agent.cpu_times()[:2]) - cpu_s
        resident_mib = agent.memory_info().rss / (1 << 20)
    print(f"agent, 8 GPUs: CPU {cpu_s / seconds:.2%} of a core, {resident_mib:.0f} MiB resident")


def run_peer(seconds: int, answers: "Queue[tuple[float, float]]") -> None:
    """Sample the same gauges with OpenTelemetry's SDK."""
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("peer")

    def observe(_: CallbackOptions) -> list[Observation]:
        return [
            Observation(0.5, {"hw.id": f"GPU-{gpu}", "gpu.index": gpu, "hw.type": "gpu"})
            for gpu in range(8)
        ]

    for metric in GPU_METRICS:
        meter.create_observable_gauge(metric.metric, [observe], metric.unit)
    process = psutil.Process()
    cpu_s = sum(process.cpu_times()[:2])
    for _ in range(seconds):
        threading.Event().wait(1.0)
        data = reader.get_metrics_data()
        if data is not None:
            encode_metrics(data).SerializeToString()
    cpu_s = sum(process.cpu_times()[:2]) - cpu_s
    answers.put((cpu_s, process.memory_info().rss / (1 << 20)))


def measure_peer(seconds: int) -> None:
    context = get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=run_peer, args=(seconds, answers))
    process.start()
    cpu_s, resident_mib = answers.get()
    process.join()
    print(
        f"OpenTelemetry SDK, same gauges, sent nowhere: CPU {cpu_s / seconds:.2%} of a core, "
        f"{resident_mib:.0f} MiB resident"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20)
    seconds = parser.parse_args().seconds
    print(describe_machine())
    with TemporaryDirectory() as directory, open_server(Path(directory)) as served:
        measure_server(served, seconds)
        measure_agent(served, Path(directory), seconds)
    measure_peer(seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
