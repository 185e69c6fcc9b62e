"""Spans a second through the whole server, until they can be queried, and what each costs in CPU.

Run by hand: `python benchmarks/ingest_server.py [--seconds 6] [--peer-python PYTHON]`. A server in
its own process takes OTLP requests over HTTP and gRPC in batches of 1, 64 and 512 spans of 8
attributes each, from a client process with 4 connections; the clock stops when all rows can be
queried. `us/span` is the CPU of all threads of the server (2 cores: the client takes the other),
and `spans/s a core` is what one core of it would carry. `health p95` is how long the web server
took to answer meanwhile, in milliseconds. The peer is MLflow's tracking server, which takes OTLP
traces too: give the Python of an environment with `pip install mlflow`.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast
from urllib.parse import urlsplit

import grpc.aio
import psutil
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest_throughput import FreshBodies, attribute, describe_process
from served import Served, describe_machine, open_server

CONNECTIONS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
HEADERS = {"Content-Type": "application/x-protobuf"}
SPAN_NAMES = {"plain": "app.work", "samples": "rl.trajectory"}


def make_request(spans: int, kind: str) -> bytes:
    """Return spans of 8 attributes: plain ones, or samples of a step."""
    request = ExportTraceServiceRequest()
    target = request.resource_spans.add(resource=describe_process()).scope_spans.add().spans
    now = time.time_ns()
    for index in range(spans):
        values: dict[str, str | int | float] = {
            "rl.trajectory.id": f"sample-{index}",
            "rl.group.id": f"group-{index // 8}",
            "rl.trajectory.turns": 3,
            "rl.trajectory.status": "success",
            "gen_ai.usage.input_tokens": 512,
            "gen_ai.usage.output_tokens": 2048 + index,
            "rl.reward.value": index / 7,
            "rl.loop.iteration": 7,
        }
        if kind == "plain":
            values = {f"app.value_{place}": value for place, value in enumerate(values.values())}
        target.add(
            trace_id=os.urandom(16),
            span_id=os.urandom(8),
            name=SPAN_NAMES[kind],
            start_time_unix_nano=now,
            end_time_unix_nano=now + 10**9,
            attributes=[attribute(key, value) for key, value in values.items()],
        )
    return request.SerializeToString()


def send_http(address: str, path: str, headers: dict[str, str], body: bytes, seconds: float) -> int:
    """Send requests over a few connections; return how many were taken."""
    counts: list[int] = []
    bodies = FreshBodies(body)
    until_s = time.monotonic() + seconds

    def send() -> None:
        parts = urlsplit(address)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        taken = 0
        while time.monotonic() < until_s:
            connection.request("POST", path, bodies.make(), headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                taken += 1
            else:
                time.sleep(0.1)
        connection.close()
        counts.append(taken)

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def send_grpc(address: str, body: bytes, seconds: float) -> int:
    """The same over gRPC."""
    return asyncio.run(_send_grpc(address, body, seconds))


async def _send_grpc(address: str, body: bytes, seconds: float) -> int:
    until_s = time.monotonic() + seconds
    bodies = FreshBodies(body)

    async def send(channel: grpc.aio.Channel) -> int:
        call = cast("Callable[[bytes], Awaitable[bytes]]", channel.unary_unary(EXPORT))
        taken = 0
        while time.monotonic() < until_s:
            with suppress(grpc.aio.AioRpcError):
                await call(bodies.make())
                taken += 1
        return taken

    channels = [grpc.aio.insecure_channel(address) for _ in range(CONNECTIONS)]
    taken = await asyncio.gather(*map(send, channels))
    for channel in channels:
        await channel.close()
    return sum(taken)


class Prober:
    """Asks for `/health` all the time, and remembers how long an answer took."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._probe)
        self.times_s: list[float] = []

    def __enter__(self) -> "Prober":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _probe(self) -> None:
        while not self._stopping.wait(0.05):
            started_s = time.monotonic()
            with urllib.request.urlopen(f"{self._address}/api/v1/health", timeout=60) as answer:
                answer.read()
            self.times_s.append(time.monotonic() - started_s)

    def p95_ms(self) -> float:
        ordered = sorted(self.times_s)
        return ordered[int(len(ordered) * 0.95)] * 1e3 if ordered else 0.0


def measure(served: Served, transport: str, spans: int, kind: str, seconds: float) -> None:
    body = make_request(spans, kind)
    before = served.count("otel_traces")
    cpu_s, started_s = served.cpu_s(), time.monotonic()
    with get_context("spawn").Pool(1) as pool, Prober(served.http) as prober:
        if transport == "http":
            task = (served.http, "/v1/traces", HEADERS, body, seconds)
            taken = pool.apply(send_http, task)
        else:
            taken = pool.apply(send_grpc, (served.grpc, body, seconds))
        sent_s = time.monotonic()
        served.wait_until_stored("otel_traces", before + taken * spans)
    stored_s = time.monotonic()
    cpu_s = served.cpu_s() - cpu_s
    count = max(1, taken * spans)
    print(
        f"{kind:<9}{transport:<6}{spans:>6}{count / (stored_s - started_s):>12,.0f}"
        f"{cpu_s / count * 1e6:>10.1f}{count / cpu_s:>16,.0f}{stored_s - sent_s:>12.1f}"
        f"{prober.p95_ms():>12.0f}{served.resident_mib():>10,.0f}",
        flush=True,
    )


def measure_peer(python: str, batches: Sequence[int], seconds: float) -> None:
    """MLflow's server with its own store, on the same spans."""
    with TemporaryDirectory() as directory, ExitStack() as opened:
        port = 15_000 + os.getpid() % 10_000
        command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{directory}/mlflow.db"]
        program = subprocess.Popen(
            command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        opened.callback(program.wait)
        opened.callback(program.terminate)
        address = f"http://127.0.0.1:{port}"
        wait_for_answer(f"{address}/health")
        headers = {**HEADERS, "x-mlflow-experiment-id": "0"}
        processes = [psutil.Process(program.pid), *psutil.Process(program.pid).children(True)]
        for spans in batches:
            body = make_request(spans, "plain")
            cpu_s, started_s = sum_cpu_s(processes), time.monotonic()
            with get_context("spawn").Pool(1) as pool:
                taken = pool.apply(send_http, (address, "/v1/traces", headers, body, seconds))
            wall_s = time.monotonic() - started_s
            cpu_s = sum_cpu_s(processes) - cpu_s
            count = max(1, taken * spans)
            print(
                f"{'MLflow':<9}{'http':<6}{spans:>6}{count / wall_s:>12,.0f}"
                f"{cpu_s / count * 1e6:>10.1f}{count / max(cpu_s, 1e-9):>16,.0f}",
                flush=True,
            )


def sum_cpu_s(processes: Sequence[psutil.Process]) -> float:
    times = [process.cpu_times() for process in processes if process.is_running()]
    return sum(each.user + each.system for each in times)


def wait_for_answer(address: str) -> None:
    deadline_s = time.monotonic() + 90
    while time.monotonic() < deadline_s:
        with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=5):
            return
        time.sleep(0.2)
    raise TimeoutError(address)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--peer-python")
    arguments = parser.parse_args()
    print(describe_machine())
    print(
        f"{'spans':<9}{'over':<6}{'batch':>6}{'spans/s':>12}{'us/span':>10}"
        f"{'spans/s a core':>16}{'s to store':>12}{'health p95':>12}{'MiB':>10}"
    )
    with TemporaryDirectory() as directory, open_server(Path(directory)) as served:
        for kind in ("plain", "samples"):
            for transport in ("http", "grpc"):
                for spans in (512, 64, 1):
                    measure(served, transport, spans, kind, arguments.seconds)
        print(f"refused {served.read_metric('longpole_ingest_refused_requests_total'):,.0f}")
    if arguments.peer_python is None:
        print("peer: none; --peer-python with an environment that has mlflow adds it")
    else:
        measure_peer(arguments.peer_python, (512, 64, 1), arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
