"""How records become rows: one table for each kind of record, one column for each field.

A column has the name of the field it stores. The migrations declare the columns' types in the
database; a test compares the two.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from longpole_server.model.discovery import ScrapeTarget
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import (
    EngineSample,
    GpuAllocation,
    GpuProcess,
    GpuSample,
    HostProcess,
    HostSample,
    MetricPoint,
    ProcessSeen,
    RunEnd,
    RunStart,
    StageSpan,
    StageStart,
    TrajectoryRecord,
    TrajectorySpan,
)
from longpole_server.store.columns import (
    FLAG,
    FLOAT,
    INTEGER,
    RATIO,
    TENTHS,
    TEXT,
    TEXT_MAP,
    TEXTS,
    THOUSANDTHS,
    TIME,
    WHOLE,
    make_array,
)
from longpole_server.store.traces import TRACE_SCHEMA, make_trace_rows

_KIND_OF_TYPE: Mapping[object, pa.DataType] = MappingProxyType(
    {str: TEXT, int: INTEGER, float: FLOAT, bool: FLAG, tuple: TEXTS, Mapping: TEXT_MAP}
)

# Measured quantities, as fine as their instruments read.
_KIND_OF_QUANTITY: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "utilization_ratio": RATIO,
        "sm_active_ratio": RATIO,
        "tensor_active_ratio": RATIO,
        "dram_active_ratio": RATIO,
        "cpu_utilization_ratio": RATIO,
        "spool_used_ratio": RATIO,
        "disk_used_ratio": RATIO,
        "power_watts": TENTHS,
        "energy_joules": THOUSANDTHS,
        "clock_offset_s": THOUSANDTHS,
        "temperature_celsius": TENTHS,
        "sm_clock_hz": WHOLE,
        "nvlink_rx_bytes_per_s": WHOLE,
        "nvlink_tx_bytes_per_s": WHOLE,
        "pcie_rx_bytes_per_s": WHOLE,
        "pcie_tx_bytes_per_s": WHOLE,
        "network_receive_bytes_per_s": WHOLE,
        "network_transmit_bytes_per_s": WHOLE,
        "memory_temperature_celsius": TENTHS,
        "sm_clock_max_hz": WHOLE,
        "disk_read_bytes_per_s": WHOLE,
        "disk_write_bytes_per_s": WHOLE,
        "fabric_receive_bytes_per_s": WHOLE,
        "fabric_transmit_bytes_per_s": WHOLE,
    }
)


@dataclass(frozen=True, slots=True)
class Table:
    """Where one kind of record is stored.

    Attributes:
        name: In the database.
        schema: Of the rows.
        make_rows: Records in, rows out, in the same order.
    """

    name: str
    schema: pa.Schema
    make_rows: Callable[[Sequence[Any]], pa.Table]


def _table_of(name: str, record_type: type) -> Table:
    kinds = {field: _kind_of(field, hint) for field, hint in get_type_hints(record_type).items()}

    def make_rows(records: Sequence[object]) -> pa.Table:
        return pa.table(
            {
                field: make_array(list(map(attrgetter(field), records)), kind)
                for field, kind in kinds.items()
            }
        )

    return Table(name, pa.schema(kinds), make_rows)


def _kind_of(field: str, hint: object) -> pa.DataType:
    if field in _KIND_OF_QUANTITY:
        return _KIND_OF_QUANTITY[field]
    if field.endswith("_ns"):
        return TIME
    present = [part for part in get_args(hint) if part is not NoneType]
    if NoneType in get_args(hint):
        hint = present[0]
    plain = get_origin(hint) or hint
    return _KIND_OF_TYPE.get(plain, TEXT)


# In the order they are written: what others refer to comes first. The keys are the fields of a
# batch of records.
TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "run_starts": _table_of("run_starts", RunStart),
        "processes": _table_of("processes", ProcessSeen),
        "stage_starts": _table_of("stage_starts", StageStart),
        "stage_spans": _table_of("stage_spans", StageSpan),
        "metric_points": _table_of("metric_points", MetricPoint),
        "trajectories": _table_of("trajectories", TrajectoryRecord),
        "trajectory_spans": _table_of("trajectory_spans", TrajectorySpan),
        "gpu_samples": _table_of("gpu_samples", GpuSample),
        "gpu_processes": _table_of("gpu_processes", GpuProcess),
        "gpu_allocations": _table_of("gpu_allocations", GpuAllocation),
        "host_samples": _table_of("host_samples", HostSample),
        "host_processes": _table_of("host_processes", HostProcess),
        "engine_samples": _table_of("engine_samples", EngineSample),
        "run_ends": _table_of("run_ends", RunEnd),
        "raw_spans": Table("otel_traces", TRACE_SCHEMA, make_trace_rows),
    }
)
RUN_GPUS = _table_of("run_gpus", RunGpu)
SCRAPE_TARGETS = _table_of("scrape_targets", ScrapeTarget)
# What the rollups of GPU samples are made of: it keeps nothing itself.
GPU_FEED = "gpu_samples_feed"
GPU_FEED_COLUMNS = (
    "host",
    "gpu_uuid",
    "gpu_index",
    "ts_ns",
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_watts",
)
