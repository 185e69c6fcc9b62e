"""What goes into the store comes out of it, whatever it is; from many threads at once."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from longpole_server.errors import StoreError
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import (
    EngineSample,
    GpuProcess,
    GpuSample,
    HostSample,
    MetricPoint,
    ProcessSeen,
    Records,
    RunEnd,
    RunStart,
    StageSpan,
    StageStart,
    TrajectoryRecord,
    TrajectorySpan,
)
from longpole_server.read import open_reader
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS, make_batch, records_of

numbers = itertools.count()
few = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def write_and_list(opened: OpenedStore, field: str, kind: Any, records: list[Any]) -> list[Any]:
    """Write records, which carry `key` as run or host, and read them from their table."""
    batch = Records()
    getattr(batch, field).extend(records)
    opened.writer.write(batch, f"property-{next(numbers)}")
    key = "run_id" if hasattr(records[0], "run_id") else "host"
    sql = f"SELECT * FROM {field} WHERE {key} = {{key:String}}"
    return opened.pool.select(kind, sql, {"key": getattr(records[0], key)})


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("run_starts", RunStart),
        ("run_ends", RunEnd),
        ("processes", ProcessSeen),
        ("stage_starts", StageStart),
        ("stage_spans", StageSpan),
        ("metric_points", MetricPoint),
        ("trajectories", TrajectoryRecord),
        ("trajectory_spans", TrajectorySpan),
        ("gpu_samples", GpuSample),
        ("gpu_processes", GpuProcess),
        ("host_samples", HostSample),
        ("engine_samples", EngineSample),
    ],
)
@given(data=st.data())
@few
def test_records_come_back_equal(
    opened: OpenedStore, field: str, kind: type[Any], data: st.DataObject
) -> None:
    key = st.just(f"property '\\\"ü {next(numbers)}")
    # No two records of a batch are the same fact: each table's identity holds one of these.
    known = {"run_id": key} if "run_id" in kind.__dataclass_fields__ else {"host": key}
    records = [
        data.draw(
            records_of(
                kind, **known, **{name: st.just(value) for name, value in identity(kind, number)}
            )
        )
        for number in range(data.draw(st.integers(1, 4)))
    ]
    found = write_and_list(opened, field, kind, records)
    assert sorted(found, key=repr) == sorted(records, key=repr)


def identity(kind: type[Any], number: int) -> list[tuple[str, int]]:
    """A field that makes records of a kind distinct, where there is one."""
    names = ("attempt", "pid", "ts_ns")
    return [(name, number) for name in names if name in kind.__dataclass_fields__][:1]


@given(data=st.data())
@few
def test_held_gpus_come_back_equal(opened: OpenedStore, data: st.DataObject) -> None:
    run_id = f"held '\\ {next(numbers)}"
    held = data.draw(records_of(RunGpu, run_id=st.just(run_id), how=st.just("pid")))
    # One that ends before it begins is taken back.
    assume(held.until_ns is None or held.until_ns >= held.since_ns)
    opened.writer.write_run_gpus([held])
    assert opened.reader.list_run_gpus(run_id) == [held]


def test_many_threads_read_while_one_writes(opened: OpenedStore) -> None:
    def read(number: int) -> int:
        steps = opened.reader.list_attempts("threads")
        samples = opened.reader.list_trajectories("threads", 1, number % 5, None)
        lanes = [RunGpu("threads", 1, "", "GPU-0", 0, "", BASE_NS, None, "pid")]
        end_ns = BASE_NS + 60 * SECOND_NS
        heatmap = opened.reader.get_gpu_heatmap(lanes, "power_watts", BASE_NS, end_ns, 60)
        return len(steps) + len(samples) + heatmap.values.size

    with ThreadPoolExecutor(8) as threads:
        reading = [threads.submit(read, number) for number in range(40)]
        for number in range(5):
            opened.writer.write(make_batch(number, run_id="threads"), f"threads-{number}")
        assert all(each.result() >= 60 for each in reading)
    assert len(opened.reader.list_trajectories("threads", 1, 4, None)) == 8


def test_a_closed_reader_is_a_store_error(opened: OpenedStore) -> None:
    reader = open_reader(opened.store, threads=2)
    assert reader.list_attempts("nobody") == []
    reader.close()
    with pytest.raises(StoreError, match="closed"):
        reader.list_attempts()
