"""Samples that come again: each quantity of each counts once, in raw tables and rollups."""

import itertools
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longpole_server.errors import StoreError
from longpole_server.model.records import (
    GpuAllocation,
    GpuProcess,
    GpuSample,
    HostSample,
    Records,
)
from longpole_server.store.known_samples import LABELS, SAMPLE_TABLES, KnownSamples
from longpole_server.store.writer import Inserter, Writer
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS

DAY_NS = 86_400 * SECOND_NS
QUANTITIES = ("utilization_ratio", "power_watts", "energy_joules")
ROLLED_UP = ("utilization_ratio", "power_watts")
_numbers = itertools.count()


class FailingInserter:
    """Fails once after a number of inserts, after or before that insert was done."""

    def __init__(self, client: Inserter, num_good: int, insert_anyway: bool) -> None:
        self._client, self._num_good, self._insert_anyway = client, num_good, insert_anyway

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self._num_good -= 1
        if self._num_good == -1:
            if self._insert_anyway:
                self._client.insert(table, rows, token)
            raise StoreError("lost")
        self._client.insert(table, rows, token)


class CountingClient:
    """Counts the questions of what knows samples."""

    def __init__(self, opened: OpenedStore) -> None:
        self._client = opened.store._client
        self.num_queries = 0

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        self.num_queries += 1
        return self._client.query(sql, parameters)


@dataclass(frozen=True)
class Send:
    """One batch: parts of samples, and what happens to its insert."""

    parts: tuple[tuple[int, int, int], ...]
    fails_after: int | None
    insert_anyway: bool
    restarts: bool


# Parts of a sample: which GPU, which second, which of the quantities as bits. Seconds lie on both
# sides of a day, so that one batch touches several partitions.
parts = st.tuples(st.integers(0, 1), st.integers(-3, 3), st.integers(0, 7))
sends = st.builds(
    Send,
    st.lists(parts, min_size=1, max_size=6).map(tuple),
    st.none() | st.integers(0, 6),
    st.booleans(),
    st.booleans(),
)
MIDNIGHT_NS = BASE_NS // DAY_NS * DAY_NS


def make_records(host: str, send: Send) -> Records:
    records = Records()
    for gpu, second, bits in send.parts:
        ts_ns = MIDNIGHT_NS + second * SECOND_NS
        values: dict[str, Any] = {
            name: 0.125 * (second + 4) for bit, name in enumerate(QUANTITIES) if bits & (1 << bit)
        }
        records.gpu_samples.append(GpuSample(host, f"{host}/{gpu}", gpu, ts_ns, **values))
        records.gpu_processes.append(
            GpuProcess(host, f"{host}/{gpu}", bits, ts_ns, memory_bytes=bits or None)
        )
        records.gpu_allocations.append(
            GpuAllocation(host, f"{host}/{gpu}", "ns", f"pod-{bits}", "main", ts_ns)
        )
        records.host_samples.append(
            HostSample(host, ts_ns, cpu_utilization_ratio=0.5 if bits & 1 else None)
        )
    return records


def count(opened: OpenedStore, sql: str, host: str) -> dict[Any, int]:
    table: Any = opened.client.query(sql, {"host": host})
    *keys, numbers = (column.to_pylist() for column in table.columns)
    return dict(zip(zip(*keys, strict=True), map(int, numbers), strict=True))


def check(opened: OpenedStore, host: str, sent: list[Send]) -> None:
    told = {part for send in sent for part in send.parts}
    times = {(gpu, second) for gpu, second, _ in told}
    for name in QUANTITIES:
        bit = 1 << QUANTITIES.index(name)
        expected = {(gpu, second) for gpu, second, bits in told if bits & bit}
        found = count(
            opened,
            f"SELECT gpu_index, intDiv(toUnixTimestamp64Nano(ts_ns) - {MIDNIGHT_NS}, {SECOND_NS}),"
            f" count({name}) FROM gpu_samples WHERE host = {{host:String}} GROUP BY 1, 2",
            host,
        )
        assert {key: num for key, num in found.items() if num} == dict.fromkeys(expected, 1), name
        assert set(found) == times
        for table in ("gpu_samples_10s", "gpu_samples_60s"):
            if name in ROLLED_UP:
                sums = opened.client.query(
                    f"SELECT sum({name}_count) AS num, sum({name}_sum) AS total FROM {table}"
                    " WHERE host = {host:String}",
                    {"host": host},
                ).to_pylist()[0]
                # Tenths of a watt are all that is kept.
                digits = 1 if name == "power_watts" else 4
                total = sum(trunc(0.125 * (second + 4), digits) for _, second in expected)
                assert sums["num"] == len(expected), (name, table)
                assert sums["total"] == pytest.approx(total), (name, table)
    for table, identity, expected_rows in (
        ("gpu_processes", "gpu_uuid, pid, ts_ns", len(told)),
        ("gpu_allocations", "gpu_uuid, pod_name, ts_ns", len(told)),
    ):
        found = count(
            opened,
            f"SELECT {identity}, count() FROM {table} WHERE host = {{host:String}} GROUP BY ALL",
            host,
        )
        assert Counter(found.values()) == Counter({1: expected_rows}), table
    cpu = count(
        opened,
        "SELECT ts_ns, count(cpu_utilization_ratio) FROM host_samples"
        " WHERE host = {host:String} GROUP BY 1",
        host,
    )
    assert len(cpu) == len({second for _, second, _ in told})
    assert sum(cpu.values()) == len({second for _, second, bits in told if bits & 1})


def trunc(value: float, digits: int) -> float:
    return float(pa.array([value]).cast(pa.decimal128(18, digits), safe=False)[0].as_py())


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(sends, min_size=1, max_size=6))
def test_whatever_is_sent_again_counts_once(opened: OpenedStore, script: list[Send]) -> None:
    host = f"again-{next(_numbers)}"
    client = opened.store._client
    known = KnownSamples(client)
    for send in script:
        token = f"again/{next(_numbers)}"
        records = make_records(host, send)
        if send.fails_after is not None:
            failing = FailingInserter(client, send.fails_after, send.insert_anyway)
            with suppress(StoreError):
                Writer(failing, known).write(records, token)
        if send.restarts:
            known = KnownSamples(client)
        Writer(client, known).write(records, token)
    check(opened, host, script)


def test_what_is_no_quantity_is_always_told(opened: OpenedStore) -> None:
    for table, kind in SAMPLE_TABLES.items():
        nullable = {
            str(name)
            for name in opened.client.query(
                "SELECT name FROM system.columns WHERE database = 'longpole'"
                " AND table = {table:String} AND type LIKE '%Nullable%'",
                {"table": table},
            )
            .column(0)
            .to_pylist()
        }
        others = set(opened.client.query(f"SELECT * FROM {table} LIMIT 0").column_names) - nullable
        assert others <= {*kind.identity, *LABELS}, table
        assert not nullable & set(kind.identity), table


def make_steady(host: str, first: int, seconds: int) -> Records:
    samples = [
        GpuSample(host, f"{host}/{gpu}", gpu, BASE_NS + second * SECOND_NS, utilization_ratio=0.5)
        for second in range(first, first + seconds)
        for gpu in range(4)
    ]
    return Records(gpu_samples=samples)


def test_who_sends_in_order_costs_one_question(opened: OpenedStore) -> None:
    client = CountingClient(opened)
    known = KnownSamples(client)
    for second in range(0, 50, 5):
        Writer(opened.store._client, known).write(make_steady("steady", second, 5), f"s{second}")
    assert client.num_queries == 1
    assert (known.num_left_out, known.num_looked_up) == (0, 0)
    # Another node, and what is late, are each asked about once.
    Writer(opened.store._client, known).write(make_steady("other", 0, 5), "other")
    assert client.num_queries == 2
    Writer(opened.store._client, known).write(make_steady("steady", 20, 10), "late")
    assert client.num_queries == 3
    assert (known.num_left_out, known.num_looked_up) == (40, 40)


def test_after_a_pause_the_store_is_asked_again(opened: OpenedStore) -> None:
    now_s = 0.0
    client = CountingClient(opened)
    known = KnownSamples(client, lambda: now_s)
    writer = Writer(opened.store._client, known)
    writer.write(make_steady("paused", 0, 5), "p0")
    now_s = 60.0
    # Meanwhile another server wrote.
    Writer(opened.store._client, KnownSamples(opened.store._client)).write(
        make_steady("paused", 5, 5), "p5"
    )
    writer.write(make_steady("paused", 5, 10), "p10")
    assert opened.count("gpu_samples", "host = 'paused'", final=False) == 60
    assert client.num_queries == 3


def test_times_of_any_age_are_looked_up_in_few_questions(opened: OpenedStore) -> None:
    extremes = [-(1 << 63), -1, 0, (1 << 63) - 1]
    days = [BASE_NS - day * DAY_NS for day in range(300)]
    records = Records(host_samples=[HostSample("wild", ts_ns, 0.5) for ts_ns in (*extremes, *days)])
    client = CountingClient(opened)
    writer = Writer(opened.store._client, KnownSamples(client))
    writer.write(records, "wild-1")
    writer.write(records, "wild-2")
    assert opened.count("host_samples", "host = 'wild'", final=False) == 304
    assert client.num_queries <= 20


def test_the_first_word_holds(opened: OpenedStore) -> None:
    first = GpuSample("word", "GPU-w", 0, BASE_NS, utilization_ratio=0.25)
    later = replace(first, utilization_ratio=0.75, power_watts=100.0)
    opened.writer.write(Records(gpu_samples=[first]), "word-1")
    opened.writer.write(Records(gpu_samples=[later]), "word-2")
    rows = opened.client.query(
        "SELECT toFloat64(max(utilization_ratio)) AS used, count(utilization_ratio) AS num,"
        " toFloat64(max(power_watts)) AS watts FROM gpu_samples WHERE host = 'word'"
    ).to_pylist()
    assert rows == [{"used": 0.25, "num": 1, "watts": 100.0}]
