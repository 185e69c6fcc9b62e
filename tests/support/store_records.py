"""Records for tests of the store: deterministic batches, and strategies for any record."""

from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from longpole_server.model.records import (
    GpuSample,
    MetricPoint,
    RawSpan,
    Records,
    RunStart,
    StageSpan,
    TrajectoryRecord,
)

# A time in the middle of a 60 s rollup row.
BASE_NS = 1_700_000_010_000_000_000
SECOND_NS = 1_000_000_000
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

# Digits behind the point that the store keeps of a measured quantity.
DECIMALS = {
    "utilization_ratio": 4,
    "sm_active_ratio": 4,
    "tensor_active_ratio": 4,
    "dram_active_ratio": 4,
    "cpu_utilization_ratio": 4,
    "spool_used_ratio": 4,
    "disk_used_ratio": 4,
    "clock_offset_s": 3,
    "power_watts": 1,
    "energy_joules": 3,
    "temperature_celsius": 1,
    "sm_clock_hz": 0,
    "nvlink_rx_bytes_per_s": 0,
    "nvlink_tx_bytes_per_s": 0,
    "pcie_rx_bytes_per_s": 0,
    "pcie_tx_bytes_per_s": 0,
    "network_receive_bytes_per_s": 0,
    "network_transmit_bytes_per_s": 0,
    "memory_temperature_celsius": 1,
    "sm_clock_max_hz": 0,
    "disk_read_bytes_per_s": 0,
    "disk_write_bytes_per_s": 0,
    "fabric_receive_bytes_per_s": 0,
    "fabric_transmit_bytes_per_s": 0,
}


def make_batch(number: int, rows: int = 8, run_id: str = "run", host: str = "node-0") -> Records:
    """A batch of several tables; every row belongs to this number alone."""
    batch = Records()
    batch.run_starts.append(RunStart(run_id, 1, BASE_NS))
    for row in range(rows):
        identity = number * rows + row
        start_ns = BASE_NS + identity * SECOND_NS
        batch.gpu_samples.append(
            GpuSample(host, f"GPU-{row}", row, start_ns, "H100", utilization_ratio=0.5)
        )
        batch.trajectories.append(
            TrajectoryRecord(
                run_id, 1, number, f"t{identity}", start_ns, start_ns + SECOND_NS, span_id="s"
            )
        )
        batch.metric_points.append(
            MetricPoint(run_id, 1, number, f"name/{row}", float(identity), start_ns)
        )
        batch.stage_spans.append(
            StageSpan(run_id, 1, number, "gen", "rl.sample", start_ns, start_ns + 1, "t", f"{row}")
        )
        batch.raw_spans.append(replace(make_raw_span(start_ns), trace_id=run_id))
    return batch


def make_raw_span(ts_ns: int) -> RawSpan:
    return RawSpan(
        ts_ns=ts_ns,
        duration_ns=1,
        trace_id="t",
        span_id="s",
        parent_span_id="",
        trace_state="",
        name="rl.sample",
        kind="Internal",
        service_name="trainer",
        resource={"rl.run.id": "run"},
        scope_name="longpole",
        scope_version="0",
        attributes={"rl.loop.iteration": "3"},
        status_code="Unset",
        status_message="",
    )


texts = st.text(max_size=8) | st.sampled_from(["", "'", '"', "\\", "\0", "\n", "ünï", "{x:Int8}"])
integers = st.integers(INT64_MIN, INT64_MAX)
times = st.integers(0, INT64_MAX)


def records_of(kind: type[Any], **known: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Any record of a type, as its fields' annotations allow. `known` fields are given."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    drawn = {name: _values(name, hints[name]) for name in names if name not in known}
    return st.builds(kind, **known, **drawn)


def _values(name: str, hint: Any) -> SearchStrategy[Any]:
    present = _present_values(name, hint)
    return st.none() | present if type(None) in get_args(hint) else present


def _present_values(name: str, hint: Any) -> SearchStrategy[Any]:
    if name in DECIMALS:
        scale = 10 ** DECIMALS[name]
        return st.integers(-(10**9) + 1, 10**9 - 1).map(lambda value: value / scale)
    if name.endswith("_ns"):
        return times
    kinds = {hint, *get_args(hint)}
    if bool in kinds:
        return st.booleans()
    if int in kinds:
        return integers
    if float in kinds:
        return st.floats(allow_nan=False)
    if hint == tuple[str, ...]:
        return st.lists(texts, max_size=3).map(tuple)
    if hint is str or type(None) in kinds:
        return texts
    return st.dictionaries(texts, texts, max_size=3)
