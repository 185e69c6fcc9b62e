"""How fast the embedded store takes records: rows a second and milliseconds an insert.

Run: `python benchmarks/store_insert.py [seconds for each line]`
"""

import itertools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from longpole_server.model.records import (
    GpuSample,
    MetricPoint,
    RawSpan,
    Records,
    TrajectoryRecord,
)
from longpole_server.store import StoreConfig, Writer, open_store

BASE_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def make_gpu_samples(number: int, rows: int) -> Records:
    return Records(
        gpu_samples=[
            GpuSample(
                f"node-{gpu // 8}",
                f"GPU-{gpu}",
                gpu % 8,
                BASE_NS + number * SECOND_NS,
                "H100",
                utilization_ratio=(gpu + number) % 100 / 100,
                memory_used_bytes=(60 << 30) + gpu,
                memory_total_bytes=80 << 30,
                sm_active_ratio=(gpu * 7 + number) % 1000 / 1000,
                tensor_active_ratio=(gpu * 3 + number) % 1000 / 1000,
                dram_active_ratio=(gpu * 5 + number) % 1000 / 1000,
                power_watts=300 + (gpu + number) % 4000 / 10,
                energy_joules=1e6 + number * 350,
                temperature_celsius=60 + gpu % 20,
                sm_clock_hz=1.98e9,
            )
            for gpu in range(rows)
        ]
    )


def make_trajectories(number: int, rows: int) -> Records:
    start_ns = BASE_NS + number * 30 * SECOND_NS
    return Records(
        trajectories=[
            TrajectoryRecord(
                "run",
                1,
                number,
                f"{number}/{row}",
                start_ns,
                start_ns + (5 + row % 25) * SECOND_NS,
                group_id=str(row // 8),
                generate_s=float(row % 20),
                tool_s=float(row % 5),
                input_tokens=512,
                output_tokens=row * 13 % 8192,
                turns=row % 6,
                status="success",
                reward=row % 2 / 1,
                replica=f"engine-{row % 8}",
                span_id=f"{row:016x}",
            )
            for row in range(rows)
        ]
    )


def make_metric_points(number: int, rows: int) -> Records:
    return Records(
        metric_points=[
            MetricPoint("run", 1, number, f"actor/metric_{row}", row / 7, BASE_NS + number)
            for row in range(rows)
        ]
    )


def make_raw_spans(number: int, rows: int) -> Records:
    resource = {"rl.run.id": "run", "service.name": "trainer", "host.name": "node-0"}
    return Records(
        raw_spans=[
            RawSpan(
                BASE_NS + number * SECOND_NS + row,
                1_000_000 + row,
                f"{number:016x}{row:016x}",
                f"{row:016x}",
                "",
                "",
                "rl.trajectory",
                "Internal",
                "trainer",
                resource,
                "longpole",
                "0",
                {"rl.loop.iteration": str(number), "rl.trajectory.id": f"{number}/{row}"},
                "Unset",
                "",
            )
            for row in range(rows)
        ]
    )


CASES: tuple[tuple[str, Callable[[int, int], Records]], ...] = (
    ("gpu_samples + 3 views", make_gpu_samples),
    ("trajectories", make_trajectories),
    ("metric_points", make_metric_points),
    ("otel_traces", make_raw_spans),
)


def measure(writer: Writer, make: Callable[[int, int], Records], rows: int, seconds: float) -> str:
    """Insert until the time is up; making the records is not counted, turning them to rows is."""
    times: list[float] = []
    cpu_s = 0.0
    for number in itertools.count():
        if sum(times) >= seconds and len(times) >= 3:
            break
        records = make(number, rows)
        start, cpu_start = time.perf_counter(), time.process_time()
        writer.write(records, f"{make.__name__}/{rows}/{number}")
        times.append(time.perf_counter() - start)
        cpu_s += time.process_time() - cpu_start
    rate = rows * len(times) / sum(times)
    ordered = sorted(times)
    return (
        f"{rate:12,.0f} {statistics.median(times) * 1e3:10.1f} "
        f"{ordered[int(len(ordered) * 0.95)] * 1e3:8.1f} {cpu_s / len(times) * 1e3:8.1f} "
        f"{cpu_s / len(times) / rows * 1e6:8.2f}"
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    header = "rows an insert", "rows/s", "p50 ms", "p95 ms", "cpu ms", "us/row"
    print(f"{'table':<22} {header[0]:>14} {header[1]:>12} {header[2]:>10} ", end="")
    print(" ".join(f"{each:>8}" for each in header[3:]))
    with tempfile.TemporaryDirectory() as directory:
        store = open_store(StoreConfig(directory=Path(directory)))
        for (name, make), rows in itertools.product(CASES, (16, 1_000, 10_000)):
            print(
                f"{name:<22} {rows:>14,} {measure(store.writer, make, rows, seconds)}", flush=True
            )
        store.close()


if __name__ == "__main__":
    main()
