"""How long the server works for each page of a large run.

Run by hand: `python benchmarks/page_latency.py [--full] [--data-dir DIR]`. The data is made inside
the embedded database: a run of 10,000 steps on 1,024 GPUs for 24 hours, with 8,192 samples a step
in its last steps; beside it 200 short runs that ended, and 500 alerts of the past. `--full` is 88
million GPU rows and 10 million spans of samples (15 minutes and 8 GB of disk on 2 cores); without
it the GPUs have 3 hours and the samples a tenth. A data directory that is kept is used again. A
page's time is what its panels take to be read, drawn and turned into JSON on the server, one after
another: those in sight at first, and all of them, what follows below the window too; cold (nothing
remembered, the database open), and as after a write elsewhere, when pages read again. `CPU` is of
all threads; on a busy machine it says more than the clock does. There is no peer here; the budget
is one second for what is in sight.
"""

import argparse
import resource
import statistics
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# As Dash writes its answers; the stubs do not know it.
from plotly.io.json import to_json_plotly  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

from longpole_dashboards.addresses import Query
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.formats import Zone
from longpole_dashboards.pages import alerts, cluster, compare, runs, sample
from longpole_dashboards.pages import run as run_page
from longpole_dashboards.pages import step as step_page
from longpole_dashboards.reading import Reader as PageReader
from longpole_dashboards.refresh import PanelGroup, View
from longpole_server.cli.serving import calm_garbage_collection
from longpole_server.errors import NotFoundError
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import MetricPoint, Records
from longpole_server.model.step import Step
from longpole_server.read import open_reader
from longpole_server.read.alerts import open_alert_reader
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.store import Store, StoreConfig, open_store

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.alert_events import make_event
from support.server_runs import RunScript, merge
from support.server_service import HandClock, ServiceBench, build_bench

RUN = "bench/large"
NODES, GPUS_A_NODE = 128, 8
STEPS = 10_000
PATTERN_STEPS = 20
SAMPLES_A_STEP = 8_192
PARTS_A_SAMPLE = 4
OTHER_RUNS, PAST_ALERTS = 200, 500
METRIC_NAMES = (
    "critic/score/mean",
    "actor/entropy",
    "actor/kl_loss",
    "response_length/mean",
    *(f"group/metric_{number}" for number in range(36)),
)
NS = 1_000_000_000
HOUR_S = 3600
STEP_S = 24 * HOUR_S / STEPS
GPU_CHUNK_S = 600
STAGES = (
    ("gen", 0.0, 5.0),
    ("reward", 5.0, 5.4),
    ("old_log_prob", 5.4, 6.0),
    ("update_actor", 6.0, 7.8),
    ("update_weights", 7.8, 8.3),
)

# A pseudo-random fraction for a row, the same at every run.
_NOISE = "(cityHash64(gpu, second, {salt}) % 10000 / 10000)"

GPU_ROWS = """
INSERT INTO gpu_samples (
    host, gpu_uuid, gpu_index, ts_ns, model, utilization_ratio, memory_used_bytes,
    memory_total_bytes, sm_active_ratio, tensor_active_ratio, dram_active_ratio, power_watts,
    energy_joules, temperature_celsius, sm_clock_hz, clocks_event_reasons, nvlink_rx_bytes_per_s,
    nvlink_tx_bytes_per_s, pcie_rx_bytes_per_s, pcie_tx_bytes_per_s
)
WITH number % {gpus} AS gpu, intDiv(number, {gpus}) AS second
SELECT
    concat('node-', leftPad(toString(intDiv(gpu, 8)), 3, '0')),
    concat('GPU-', leftPad(toString(gpu), 6, '0')),
    gpu % 8,
    fromUnixTimestamp64Nano(toInt64({start_ns}) + toInt64(second) * 1000000000, 'UTC'),
    'NVIDIA H100 80GB HBM3',
    floor({n1} * 100) / 100,
    toInt64(60e9 + gpu * 1e6 + intDiv(second, 60) * 4096),
    80000000000,
    {n2}, {n3}, {n4},
    300 + {n5} * 400,
    1e6 + second * 450 + {n6} * 100,
    55 + floor({n7} * 20),
    1980000000 - 15000000 * floor({n8} * 8),
    0,
    toInt64({n9} * 1e10), toInt64({n10} * 1e10), toInt64({n11} * 1e9), toInt64({n12} * 1e9)
FROM numbers({rows})
"""

# As the writer does it for samples that come in: rollups are fed apart from the raw table.
GPU_ROLLUPS = """
INSERT INTO gpu_samples_feed
SELECT
    host, gpu_uuid, gpu_index, ts_ns, utilization_ratio, sm_active_ratio, tensor_active_ratio,
    dram_active_ratio, memory_used_bytes, power_watts
FROM gpu_samples
WHERE ts_ns >= fromUnixTimestamp64Nano(toInt64({start_ns}), 'UTC')
    AND ts_ns < fromUnixTimestamp64Nano(toInt64({end_ns}), 'UTC')
"""

SPAN_COPIES = """
INSERT INTO stage_spans
SELECT pattern.* REPLACE (
    step + {pattern} * (copy.number + 1) AS step,
    start_ns + toIntervalNanosecond(toInt64({shift_ns} * (copy.number + 1))) AS start_ns,
    end_ns + toIntervalNanosecond(toInt64({shift_ns} * (copy.number + 1))) AS end_ns,
    hex(cityHash64(span_id, copy.number)) AS span_id
)
FROM (SELECT * FROM stage_spans FINAL) AS pattern CROSS JOIN numbers({copies}) AS copy
"""

SCALAR_COPIES = """
INSERT INTO metric_points
SELECT pattern.* REPLACE (
    step + {pattern} * (copy.number + 1) AS step,
    value * (1 + cityHash64(name, copy.number, step) % 1000 / 5000) AS value,
    ts_ns + toIntervalNanosecond(toInt64({shift_ns} * (copy.number + 1))) AS ts_ns
)
FROM (SELECT * FROM metric_points FINAL) AS pattern CROSS JOIN numbers({copies}) AS copy
"""

SAMPLE_ROWS = """
INSERT INTO trajectories
WITH
    number % {samples} AS row,
    {first_step} + intDiv(number, {samples}) AS own_step,
    cityHash64(number) % 10000 / 10000 AS noise,
    toInt64({begin_ns}) + toInt64((own_step - 1) * {step_ns}) AS begin_ns,
    0.5 + 4.4 * pow(noise, 4) AS seconds,
    concat('s', toString(own_step), '-', toString(row)) AS sample_id
SELECT
    '{run}', 1, own_step, sample_id,
    fromUnixTimestamp64Nano(begin_ns, 'UTC'),
    fromUnixTimestamp64Nano(begin_ns + toInt64(seconds * 1e9), 'UTC'),
    'train', toString(intDiv(row, 8)), seconds * 0.8, seconds * 0.15, seconds * 0.05, 0.0, NULL,
    200 + row % 300, toInt64(seconds * 800), 1 + row % 4, 0, 'success', row % 2, own_step, own_step,
    concat('engine-', toString(row % 128)), concat('node-', leftPad(toString(row % 128), 3, '0')),
    lower(hex(cityHash64(number, 1))), lower(hex(cityHash64(number, 2)))
FROM numbers({rows})
"""

PART_ROWS = """
INSERT INTO trajectory_spans
SELECT
    run_id, attempt, trajectory_id,
    part.number % 2 = 0 ? 'generate' : 'tool',
    part.number % 2 = 0 ? 'rl.generate' : 'python',
    start_ns + toIntervalNanosecond(toInt64(part.number * 1e8)),
    start_ns + toIntervalNanosecond(toInt64((part.number + 1) * 1e8)),
    hex(cityHash64(span_id, part.number)),
    intDiv(part.number, 2), 50, 100
FROM trajectories CROSS JOIN numbers({parts}) AS part
WHERE step >= {first_step} AND step < {last_step}
"""


class Cluster:
    """What is made, and when it happened."""

    def __init__(self, now_ns: int, *, full: bool) -> None:
        self.now_ns = now_ns
        self.begin_ns = now_ns - 24 * HOUR_S * NS
        self.gpu_seconds = (24 if full else 3) * HOUR_S
        self.sample_steps = 244 if full else 24

    @property
    def gpus(self) -> int:
        return NODES * GPUS_A_NODE


def note(text: str) -> None:
    print(f"# {time.strftime('%H:%M:%S')} {text}", flush=True)


def make_data(store: Store, bench: ServiceBench, cluster: Cluster) -> None:
    run = RunScript(RUN, begin_ns=cluster.begin_ns, host="node-000")
    bench.write(run.start(system="verl", algorithm="grpo", gpu_count=cluster.gpus))
    hold_gpus(store, cluster)
    for step in range(1, PATTERN_STEPS + 1):
        bench.write(make_step(run, step))
    client = store.new_schema_client()
    shape = {
        "pattern": PATTERN_STEPS,
        "shift_ns": int(PATTERN_STEPS * STEP_S * NS),
        "copies": STEPS // PATTERN_STEPS - 1,
    }
    copy_steps(store, bench)
    for copies in (SPAN_COPIES, SCALAR_COPIES):
        client.command(copies.format(**shape))
    note(f"{STEPS:,} steps")
    make_others(bench, cluster)
    make_samples(client.command, cluster)
    note(f"{cluster.sample_steps * SAMPLES_A_STEP * (1 + PARTS_A_SAMPLE):,} spans of samples")
    make_gpu_rows(client.command, cluster)
    note(f"{cluster.gpus * cluster.gpu_seconds:,} GPU rows")
    client.close()


def make_others(bench: ServiceBench, cluster: Cluster) -> None:
    """Add what other pages list beside the run: short runs that ended, and alerts of the past."""
    for number in range(OTHER_RUNS):
        begin_ns = cluster.begin_ns + number * 400 * NS
        other = RunScript(f"bench/short-{number}", begin_ns=begin_ns, host="node-000")
        bench.write(
            merge(
                other.start(system="verl", algorithm="grpo", gpu_count=8),
                *(make_step(other, step) for step in range(1, 4)),
                other.end(3 * STEP_S),
            )
        )
    events = [
        make_event(
            number,
            kind=kind,
            event_id=f"{kind}-{number}",
            ts_ns=cluster.begin_ns + (number * 100 + later_s) * NS,
            decided_ns=cluster.begin_ns + (number * 100 + later_s) * NS,
            started_ns=cluster.begin_ns + number * 100 * NS,
            fired_ns=cluster.begin_ns + number * 100 * NS,
            run_id=RUN,
            entity_id=RUN,
        )
        for number in range(PAST_ALERTS)
        for kind, later_s in (("firing", 0), ("resolved", 60))
    ]
    assert bench.alert_store is not None
    bench.alert_store.writer.write_events(events)
    note(f"{OTHER_RUNS} other runs, {PAST_ALERTS} alerts")


def copy_steps(store: Store, bench: ServiceBench) -> None:
    """Repeat the first steps, and their stages' windows, until the run is as long as it should be.

    The diagnoses are copies.
    """
    pattern = [
        (step, bench.reader.get_step_diagnosis(RUN, step.attempt, step.step))
        for step in bench.reader.list_steps(RUN, 1, PATTERN_STEPS)
    ]
    for first in range(PATTERN_STEPS, STEPS, PATTERN_STEPS):
        later_ns = int(first * STEP_S * NS)
        copies = [(move(step, first, later_ns), diagnosis) for step, diagnosis in pattern]
        store.writer.write_steps(copies, time.time_ns())


def move(step: Step, later_steps: int, later_ns: int) -> Step:
    assert step.end_ns is not None
    stages = tuple(
        replace(
            stage,
            start_ns=stage.start_ns and stage.start_ns + later_ns,
            end_ns=stage.end_ns and stage.end_ns + later_ns,
            windows=tuple((begin + later_ns, end + later_ns) for begin, end in stage.windows),
        )
        for stage in step.stages
    )
    return replace(
        step,
        step=step.step + later_steps,
        start_ns=step.start_ns + later_ns,
        end_ns=step.end_ns + later_ns,
        stages=stages,
    )


def hold_gpus(store: Store, cluster: Cluster) -> None:
    store.writer.write_run_gpus(
        [
            RunGpu(
                RUN,
                1,
                f"node-{gpu // 8:03}",
                f"GPU-{gpu:06}",
                gpu % 8,
                "actor" if gpu % 2 else "rollout",
                cluster.begin_ns,
                None,
                "gpu_ids",
                "NVIDIA H100 80GB HBM3",
            )
            for gpu in range(cluster.gpus)
        ]
    )


def make_step(run: RunScript, step: int) -> Records:
    start_s = (step - 1) * STEP_S
    points = [
        MetricPoint(run.run_id, 1, step, name, 0.5 + number / 100, run.at(start_s + STEP_S))
        for number, name in enumerate(METRIC_NAMES)
    ]
    return merge(
        run.stages(step, start_s, STAGES),
        run.loop(step, start_s, STEP_S, tokens=8_000_000),
        Records(metric_points=points),
    )


def make_samples(command: Callable[[str], None], cluster: Cluster) -> None:
    first = STEPS - cluster.sample_steps + 1
    chunk = 16
    for step in range(first, STEPS + 1, chunk):
        steps = min(chunk, STEPS + 1 - step)
        command(
            SAMPLE_ROWS.format(
                run=RUN,
                samples=SAMPLES_A_STEP,
                first_step=step,
                begin_ns=cluster.begin_ns,
                step_ns=int(STEP_S * NS),
                rows=steps * SAMPLES_A_STEP,
            )
        )
        command(PART_ROWS.format(parts=PARTS_A_SAMPLE, first_step=step, last_step=step + steps))


def make_gpu_rows(command: Callable[[str], None], cluster: Cluster) -> None:
    begin_ns = cluster.now_ns - cluster.gpu_seconds * NS
    noise = {f"n{salt}": _NOISE.format(salt=salt) for salt in range(1, 13)}
    for second in range(0, cluster.gpu_seconds, GPU_CHUNK_S):
        command(
            GPU_ROWS.format(
                gpus=cluster.gpus,
                start_ns=begin_ns + second * NS,
                rows=GPU_CHUNK_S * cluster.gpus,
                **noise,
            )
        )
        start_ns = begin_ns + second * NS
        command(GPU_ROLLUPS.format(start_ns=start_ns, end_ns=start_ns + GPU_CHUNK_S * NS))


@contextmanager
def opened(directory: Path) -> Generator[tuple[Store, ServiceBench]]:
    store = open_store(StoreConfig(directory=directory))
    reader = open_reader(store, 6)
    alert_store = AlertStore(open_alert_reader(store), store.new_alert_writer())
    yield store, build_bench(reader, SerialWriter(store.writer), HandClock(), alert_store)
    alert_store.writer.close()
    alert_store.reader.close()
    reader.close()
    store.close()


Groups = tuple[PanelGroup[Any], ...]
HALVES = f"?a={RUN}&from=1&to=5000&b_from=5001&b_to=10000"

RUNS: tuple[Groups, Groups] = (runs.FIRST_GROUPS, runs.LATER_GROUPS)
RUN_PAGE: tuple[Groups, Groups] = (run_page.FIRST_GROUPS, run_page.LATER_GROUPS)
STEP: tuple[Groups, Groups] = (step_page.FIRST_GROUPS, step_page.LATER_GROUPS)
SAMPLE: tuple[Groups, Groups] = (sample.FIRST_GROUPS, sample.LATER_GROUPS)
COMPARE: tuple[Groups, Groups] = (compare.FIRST_GROUPS, compare.LATER_GROUPS)
CLUSTER: tuple[Groups, Groups] = (cluster.FIRST_GROUPS, cluster.LATER_GROUPS)
ALERTS: tuple[Groups, Groups] = (alerts.FIRST_GROUPS, alerts.LATER_GROUPS)

# Name -> the panels in sight at first, those that follow, and the page's address.
PAGES: Mapping[str, tuple[tuple[Groups, Groups], str]] = {
    "runs, 201 of them": (RUNS, "?"),
    "run, last 40 steps": (RUN_PAGE, f"?id={RUN}"),
    "run, all steps, 2 h": (RUN_PAGE, f"?id={RUN}&steps=all&span=120"),
    "step, 8,192 samples": (STEP, f"?run={RUN}&step={{step}}&id=s{{step}}-77"),
    "sample": (SAMPLE, f"?run={RUN}&id=s{{step}}-77"),
    "compare, its two ends": (COMPARE, f"?a={RUN}"),
    "compare, its two halves": (COMPARE, HALVES),
    "cluster, 10 min": (CLUSTER, "?"),
    "cluster, 6 h": (CLUSTER, "?span=360"),
    "cluster, one node": (CLUSTER, "?node=node-007"),
    "alerts, 500 past": (ALERTS, "?"),
}


def draw(groups: Groups, reader: PageReader, view: View) -> dict[str, float]:
    """Read and draw every panel of a page; return the milliseconds of each."""
    times_ms: dict[str, float] = {}
    for group in groups:
        reading = group.read(reader, view)
        for panel in group.panels:
            started_s = time.perf_counter()
            # The size of the store is measured by another part of the server.
            with suppress(NotFoundError):
                repr(panel.key(reading))
                values = panel.render(reading)
                plain = [v.to_plotly_json() if isinstance(v, Figure) else v for v in values]
                to_json_plotly(plain)
            name = panel.outputs[0][0]
            times_ms[name] = (time.perf_counter() - started_s) * 1e3
    return times_ms


def reopen(store: Store, bench: ServiceBench) -> ServiceBench:
    """Return a service that remembers nothing."""
    return build_bench(open_reader(store, 6), bench.writer, bench.clock, bench.alert_store)


def measure_pages(
    store: Store, bench: ServiceBench, cluster: Cluster, rounds: int, only: str
) -> None:
    print(
        f"\n{'milliseconds':<24}{'in sight: cold':>16}{'p50':>7}{'p95':>7}"
        f"{'all: cold':>11}{'p50':>7}{'p95':>7}{'CPU p50':>9}   slowest panels"
    )
    for name, (groups, address) in PAGES.items():
        if only in name:
            measure_page(store, bench, cluster, rounds, name, groups, address)


def measure_page(
    store: Store,
    bench: ServiceBench,
    cluster: Cluster,
    rounds: int,
    name: str,
    groups: tuple[Groups, Groups],
    address: str,
) -> None:
    first_ms: list[float] = []
    totals_ms: list[float] = []
    cpu_ms: list[float] = []
    panels_ms: dict[str, list[float]] = {}
    fresh = reopen(store, bench)
    bench.clock.seconds = (cluster.now_ns - HandClock().now_ns()) / NS
    for number in range(rounds):
        bench.clock.seconds += 1
        step = STEPS - 1 - number % (cluster.sample_steps - 2)
        view = View(
            query=Query.parse(address.format(step=step)),
            theme="light",
            zone=Zone(),
            now_ns=cluster.now_ns,
        )
        reader = PageReader(fresh.service)
        started_s, cpu_s = time.perf_counter(), time.process_time()
        each_ms = draw(groups[0], reader, view)
        first_ms.append((time.perf_counter() - started_s) * 1e3)
        each_ms |= draw(groups[1], reader, view)
        totals_ms.append((time.perf_counter() - started_s) * 1e3)
        cpu_ms.append((time.process_time() - cpu_s) * 1e3)
        for panel, panel_ms in each_ms.items():
            panels_ms.setdefault(panel, []).append(panel_ms)
        # Something was written: what the service remembers of the run is read again.
        fresh.revisions.bump(RUN)
    slowest = sorted(panels_ms.items(), key=lambda item: -statistics.median(item[1]))[:3]
    fresh.reader.close()
    print(
        f"{name:<24}{first_ms[0]:>16.0f}{statistics.median(first_ms[1:]):>7.0f}"
        f"{find_p95(first_ms[1:]):>7.0f}{totals_ms[0]:>11.0f}{statistics.median(totals_ms[1:]):>7.0f}"
        f"{find_p95(totals_ms[1:]):>7.0f}{statistics.median(cpu_ms[1:]):>9.0f}   "
        + ", ".join(f"{panel} {statistics.median(ms):.0f}" for panel, ms in slowest),
        flush=True,
    )


def find_p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


QUERIES: Mapping[str, Callable[[ServiceBench, Cluster, int], object]] = {
    "all steps": lambda bench, _cluster, _number: bench.service.list_steps(RUN),
    "one step": lambda bench, _cluster, number: bench.service.get_step(RUN, STEPS - 1 - number),
    "samples of a step": lambda bench, _cluster, number: bench.service.list_trajectories(
        RUN, STEPS - 1 - number, "-duration", 10_001
    ),
    "distribution of a step": lambda bench, _cluster, number: bench.service.get_distribution(
        RUN, STEPS - 1 - number
    ),
    "one sample": lambda bench, _cluster, number: bench.service.get_trajectory(
        RUN, f"s{STEPS - 1 - number}-77"
    ),
    "a metric, all steps": lambda bench, _cluster, _number: bench.service.get_metric(
        RUN, "critic/score/mean"
    ),
    "verdict changes": lambda bench, _cluster, _number: bench.service.list_verdict_changes(RUN),
    "diagnosis, last 20": lambda bench, _cluster, _number: bench.service.diagnose(RUN),
    "heat-map, 10 min": lambda bench, cluster, number: read_heat(bench, cluster, 600, number),
    "heat-map, 2 h": lambda bench, cluster, number: read_heat(bench, cluster, 7_200, number),
    "heat-map, 24 h": lambda bench, cluster, number: read_heat(bench, cluster, 86_400, number),
    "cluster now": lambda bench, _cluster, _number: bench.service.get_cluster(),
}


def read_heat(bench: ServiceBench, cluster: Cluster, seconds: int, number: int) -> object:
    end_ns = cluster.now_ns - number * 7 * NS
    return bench.service.get_gpu_heatmap(RUN, "sm_active_ratio", end_ns - seconds * NS, end_ns, 720)


def measure_queries(store: Store, bench: ServiceBench, cluster: Cluster, rounds: int) -> None:
    print(f"\n{'milliseconds':<24}{'cold':>9}{'p50':>9}{'p95':>9}{'CPU p50':>9}")
    for name, ask in QUERIES.items():
        fresh = reopen(store, bench)
        times_ms: list[float] = []
        cpu_ms: list[float] = []
        for number in range(rounds):
            started_s, cpu_s = time.perf_counter(), time.process_time()
            ask(fresh, cluster, number % (cluster.sample_steps - 2))
            times_ms.append((time.perf_counter() - started_s) * 1e3)
            cpu_ms.append((time.process_time() - cpu_s) * 1e3)
            fresh.revisions.bump(RUN)
        later = sorted(times_ms[1:])
        fresh.reader.close()
        print(
            f"{name:<24}{times_ms[0]:>9.0f}{statistics.median(later):>9.0f}"
            f"{later[int(len(later) * 0.95)]:>9.0f}{statistics.median(cpu_ms[1:]):>9.0f}",
            flush=True,
        )


def measure(directory: Path, *, full: bool, rounds: int, only: str) -> None:
    stamp = directory / "made"
    now_ns = time.time_ns() // (60 * NS) * 60 * NS
    if stamp.exists():
        now_ns = int(stamp.read_text())
    cluster = Cluster(now_ns, full=full)
    with opened(directory / "store") as (store, bench):
        bench.clock.seconds = (cluster.now_ns - HandClock().now_ns()) / NS
        if not stamp.exists():
            make_data(store, bench, cluster)
            stamp.write_text(str(now_ns))
        # As the server does once it has started.
        calm_garbage_collection()
        if not only:
            measure_queries(store, bench, cluster, rounds)
        measure_pages(store, bench, cluster, rounds, only)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nmost memory of the process: {peak_mib:,.0f} MiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="part of the name of the pages to measure")
    parser.add_argument("--data-dir", type=Path, help="kept and used again")
    arguments = parser.parse_args()
    if arguments.data_dir is not None:
        arguments.data_dir.mkdir(parents=True, exist_ok=True)
        measure(
            arguments.data_dir, full=arguments.full, rounds=arguments.rounds, only=arguments.only
        )
        return 0
    with TemporaryDirectory() as directory:
        measure(Path(directory), full=arguments.full, rounds=arguments.rounds, only=arguments.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
