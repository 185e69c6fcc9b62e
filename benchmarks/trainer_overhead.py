"""What Longpole costs the trainer's own thread, call by call.

Run by hand: `python benchmarks/trainer_overhead.py [--rounds 15]`. Microseconds a call on the
calling thread: its CPU time, which a busy machine does not blur, in the median round and in the
95th percentile of the rounds, and the wall time of the best round. With a receiver that takes
everything, one that answers nothing, and none at all; above them what a trainer would write without
Longpole: a span of the plain OpenTelemetry SDK, a record appended to a list. What the hooks into
frameworks add to that: `hooks_overhead.py`.
"""

import argparse
import contextlib
import http.server
import logging
import multiprocessing
import socket
import statistics
import time
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)

import longpole

METRICS = {f"group/metric_{number}": number / 7 for number in range(100)}
NOW_NS = time.time_ns()
PARTS = tuple(
    (kind, "python", NOW_NS + turn, NOW_NS + turn + 1)
    for turn in range(5)
    for kind in ("generate", "tool")
)
# (what, calls a round, what one call counts as)
Case = tuple[str, Callable[[], object], int, int]


class NullExporter(SpanExporter):
    """Takes spans and does nothing."""

    def export(self, spans: object) -> SpanExportResult:  # noqa: ARG002 - the base's signature
        return SpanExportResult.SUCCESS


def record_step() -> None:
    with longpole.step(1):
        pass


def record_stage() -> None:
    with longpole.stage("gen"):
        pass


def record_small_trajectory() -> None:
    longpole.trajectory("abc", start_ns=NOW_NS, end_ns=NOW_NS, output_tokens=300, reward=1.0)


def record_trajectory() -> None:
    longpole.trajectory(
        "abc",
        start_ns=NOW_NS,
        end_ns=NOW_NS,
        step=1,
        group_id="group",
        generate_s=1.5,
        tool_s=0.5,
        input_tokens=200,
        output_tokens=300,
        turns=2,
        preemptions=0,
        status="success",
        reward=1.0,
        replica="replica-0",
    )


def record_trajectory_with_parts() -> None:
    longpole.trajectory("abc", start_ns=NOW_NS, end_ns=NOW_NS, step=1, reward=1.0, parts=PARTS)


CASES: tuple[Case, ...] = (
    ("step", record_step, 300, 1),
    ("stage", record_stage, 300, 1),
    ("trajectory, 4 fields", record_small_trajectory, 2000, 1),
    ("trajectory, 14 fields", record_trajectory, 2000, 1),
    ("trajectory, 10 parts", record_trajectory_with_parts, 1000, 1),
    ("metric, of 100 logged", lambda: longpole.log(1, METRICS), 20, len(METRICS)),
    ("metric, logged alone", lambda: longpole.log(1, {"loss": 0.5}), 2000, 1),
)


def build_bare_cases() -> Iterator[Case]:
    """What the same costs without Longpole."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(NullExporter()))
    tracer = provider.get_tracer("bare")
    records: list[object] = []

    def span() -> None:
        attributes = {"rl.stage": "gen", "rl.loop.iteration": 1}
        with tracer.start_as_current_span("rl.sample", attributes=attributes):
            pass

    def append_sample() -> None:
        records.append({"id": "abc", "start": NOW_NS, "end": NOW_NS, "tokens": 300, "reward": 1.0})

    def append_metrics() -> None:
        for name, value in METRICS.items():
            records.append((1, name, value))

    yield "OpenTelemetry span", span, 300, 1
    yield "dict appended to a list", append_sample, 2000, 1
    yield "tuple appended to a list", append_metrics, 20, len(METRICS)
    provider.shutdown()


def measure(case: Case, num_rounds: int) -> tuple[float, float, float]:
    """Return CPU time of the median and p95 round, wall time of the best one, in microseconds."""
    _, call, num_calls, per_call = case
    cpu_us: list[float] = []
    wall_us: list[float] = []
    for _ in range(num_rounds):
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(num_calls):
            call()
        cpu_us.append((time.thread_time_ns() - cpu_ns) / num_calls / per_call / 1000)
        wall_us.append((time.perf_counter_ns() - wall_ns) / num_calls / per_call / 1000)
    p95_us = sorted(cpu_us)[int(len(cpu_us) * 0.95)]
    return statistics.median(cpu_us), p95_us, min(wall_us)


def serve(connection: Connection) -> None:
    """Take everything, in a process of its own: the trainer's interpreter must not share it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as inherited
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    connection.send(server.server_port)
    server.serve_forever()


@contextlib.contextmanager
def open_live_receiver() -> Generator[int]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(theirs,), daemon=True
    )
    process.start()
    yield ours.recv()
    process.kill()
    process.join()


@contextlib.contextmanager
def open_silent_receiver() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.contextmanager
def find_dead_port() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    yield port


def print_rows(title: str, cases: Iterator[Case], num_rounds: int) -> None:
    print(f"\n{title}")
    for case in cases:
        figures = "".join(f"{each:>12.2f}" for each in measure(case, num_rounds))
        print(f"  {case[0]:<28}{figures}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    num_rounds = parser.parse_args().rounds
    logging.disable()
    print(f"{'microseconds a call':<30}{'CPU':>12}{'p95':>12}{'best wall':>12}")
    print_rows("bare", build_bare_cases(), num_rounds)
    print_rows("longpole before init", iter(CASES), num_rounds)
    for title, receiver in (
        ("longpole, receiver takes everything", open_live_receiver()),
        ("longpole, receiver answers nothing", open_silent_receiver()),
        ("longpole, no receiver", find_dead_port()),
    ):
        with receiver as port:
            longpole.init("overhead", endpoint=f"http://127.0.0.1:{port}")
            print_rows(title, iter(CASES), num_rounds)
            longpole.shutdown(timeout_s=5.0)
            stats = longpole.stats()
        for what in ("sent", "dropped", "waiting"):
            print(f"  {what:<8} {dict(getattr(stats, what))}")


if __name__ == "__main__":
    main()
