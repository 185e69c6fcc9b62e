"""Leaves out samples that are stored already: those that a sender repeats under another batch id.

A sample is known by who was measured and when. Parts of one sample may come in several requests,
so each of its quantities counts once, whichever of them brought it.

Whoever sends in order never asks the database: what is newer than everything stored of a GPU or a
node is new. The rest is looked up by its identity, however old it is.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Who a watermark is kept for: of the oldest the database is asked again.
_MAX_KEYS = 100_000
# Without a write for so long another server may have written.
_FORGET_AFTER_S = 10.0
# Names in one question: they travel in the address of the request.
_MAX_NAMES = 200
# Samples of wild times are looked up in so many questions at most.
_MAX_SPANS = 16
_LONG_GAP_NS = 3_600 * 10**9
_TIME = "ts_ns"
_HOST = "host"

_Identity: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SampleTable:
    """How samples of a table are told apart.

    Attributes:
        key: Whose samples come in order of time.
        identity: What names a sample, time included.
    """

    key: tuple[str, ...]
    identity: tuple[str, ...]


_GPU = ("host", "gpu_uuid")
SAMPLE_TABLES: Mapping[str, SampleTable] = MappingProxyType(
    {
        "gpu_samples": SampleTable(_GPU, (*_GPU, _TIME)),
        "gpu_processes": SampleTable(_GPU, (*_GPU, "pid", _TIME)),
        "gpu_allocations": SampleTable(
            _GPU, (*_GPU, "pod_namespace", "pod_name", "container", _TIME)
        ),
        "host_samples": SampleTable((_HOST,), (_HOST, _TIME)),
        "host_processes": SampleTable((_HOST,), (_HOST, "pid", _TIME)),
    }
)
# What names a thing beside its samples' identity, and is no quantity of a sample.
LABELS = frozenset({"gpu_index", "model", "parent_uuid", "mig_profile", "title"})


class Asks(Protocol):
    """What this needs of a connection."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run a query whose `{name:Type}` placeholders are bound by the database."""
        ...


class KnownSamples:
    """Knows which samples a store holds. Not thread-safe: it belongs to the one writer.

    Args:
        client: Reads what this process and those before it wrote.
        clock_s: Monotonic seconds.
        in_order: Whether most samples are newer than those before. If not, all are looked up.

    Attributes:
        num_left_out: Rows that were stored already.
        num_looked_up: Rows that the database was asked about.
    """

    def __init__(
        self,
        client: Asks,
        clock_s: Callable[[], float] = time.monotonic,
        *,
        in_order: bool = True,
    ) -> None:
        self._client = client
        self._in_order = in_order
        self._clock_s = clock_s
        self._written_s = clock_s()
        # The newest stored time of each key, at least.
        self._watermarks: dict[str, dict[_Identity, int]] = {name: {} for name in SAMPLE_TABLES}
        self.num_left_out: int = 0
        self.num_looked_up: int = 0

    def leave_out(self, table: str, rows: pa.Table) -> pa.Table:
        """Return the rows without what is stored, or stands twice among them.

        The answer is the same until the rows are stored, however often it is asked for.

        Raises:
            StoreError: The database failed; call again.
        """
        kind = SAMPLE_TABLES.get(table)
        if kind is None or not rows.num_rows:
            return rows
        if self._clock_s() > self._written_s + _FORGET_AFTER_S:
            self._forget()
        suspects = self._find_suspects(table, kind, rows)
        if not suspects.any():
            return rows
        self.num_looked_up += int(suspects.sum())
        kept = self._drop_known(table, kind, rows, np.flatnonzero(suspects))
        self.num_left_out += rows.num_rows - kept.num_rows
        return kept

    def remember(self, table: str, rows: pa.Table) -> None:
        """Take note of rows that are stored now."""
        kind = SAMPLE_TABLES.get(table)
        if kind is None or not rows.num_rows:
            return
        self._written_s = self._clock_s()
        marks = self._watermarks[table]
        for key, (_, newest_ns) in _span_keys(rows, kind.key).items():
            # Who was not asked about is asked about when it comes again.
            if key in marks:
                marks[key] = max(marks[key], newest_ns)

    def _forget(self) -> None:
        for marks in self._watermarks.values():
            marks.clear()
        self._written_s = self._clock_s()

    def _find_suspects(
        self, table: str, kind: SampleTable, rows: pa.Table
    ) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Tell of each row whether it may be known: not newer than all that is, or there twice."""
        if not self._in_order:
            return np.ones(rows.num_rows, np.bool_)
        spans = _span_keys(rows, kind.key)
        marks = self._watermarks[table]
        strangers = [key for key in spans if key not in marks]
        if strangers:
            self._learn(table, kind, {key: spans[key][0] for key in strangers})
        late = {key for key, (oldest_ns, _) in spans.items() if oldest_ns <= marks[key]}
        suspects = np.zeros(rows.num_rows, np.bool_)
        if late:
            times = _read_times(rows)
            for number, key in enumerate(_read_keys(rows, kind.key)):
                suspects[number] = key in late and times[number] <= marks[key]
        if rows.group_by(list(kind.identity)).aggregate([]).num_rows < rows.num_rows:
            suspects |= _find_repeats(rows, kind.identity)
        return suspects

    def _learn(self, table: str, kind: SampleTable, since_ns: Mapping[_Identity, int]) -> None:
        """Ask how far the samples of keys reach; only times from `since_ns` on matter."""
        marks = self._watermarks[table]
        while len(marks) + len(since_ns) > _MAX_KEYS and marks:
            del marks[next(iter(marks))]
        marks.update((key, time_ns - 1) for key, time_ns in since_ns.items())
        by_host: dict[str, int] = {}
        for key, time_ns in since_ns.items():
            by_host[str(key[0])] = min(time_ns, by_host.get(str(key[0]), time_ns))
        oldest_first = sorted(by_host, key=by_host.__getitem__)
        for hosts in _chunk(oldest_first, _MAX_NAMES):
            answer = self._client.query(
                f"SELECT {', '.join(kind.key)}, max(found.{_TIME}) AS newest"  # noqa: S608 - our names
                f" FROM {table} AS found"
                f" WHERE found.{_TIME} >= fromUnixTimestamp64Nano({{since:Int64}}, 'UTC')"
                " AND host IN {hosts:Array(String)}"
                f" GROUP BY {', '.join(kind.key)}",
                {"since": by_host[hosts[0]], "hosts": hosts},
            )
            newest = _read_column(answer, "newest")
            for key, newest_ns in zip(_read_keys(answer, kind.key), newest, strict=True):
                if key in since_ns:
                    marks[key] = max(marks[key], newest_ns)

    def _drop_known(
        self, table: str, kind: SampleTable, rows: pa.Table, numbers: "np.ndarray[Any, Any]"
    ) -> pa.Table:
        quantities = _list_quantities(rows, kind)
        suspects = rows.take(numbers)
        known = self._look_up(table, kind, suspects, quantities)
        present = {name: suspects[name].is_valid().to_pylist() for name in quantities}
        kept = np.ones(rows.num_rows, np.bool_)
        erased: dict[str, list[int]] = defaultdict(list)
        for place, identity in enumerate(_read_keys(suspects, kind.identity)):
            number = int(numbers[place])
            mask = sum(1 << bit for bit, name in enumerate(quantities) if present[name][place])
            before = known.get(identity)
            if before is None:
                known[identity] = mask
                continue
            known[identity] = before | mask
            if not mask & ~before:
                kept[number] = False
                continue
            for bit, name in enumerate(quantities):
                if mask & before & (1 << bit):
                    erased[name].append(number)
        return _erase(rows, erased).filter(pa.array(kept))

    def _look_up(
        self, table: str, kind: SampleTable, rows: pa.Table, quantities: Sequence[str]
    ) -> dict[_Identity, int]:
        """Return which of the rows' samples are stored, with their quantities as bits."""
        bits = " + ".join(
            f"bitShiftLeft(toUInt64(isNotNull({name})), {bit})"
            for bit, name in enumerate(quantities)
        )
        wanted = set(_read_keys(rows, kind.identity))
        hosts = sorted(set(_read_texts(rows, _HOST)))
        known: dict[_Identity, int] = {}
        for first, last in _list_spans(_read_times(rows)):
            for some in _chunk(hosts, _MAX_NAMES):
                # Names are this module's own; what comes from outside is a parameter.
                answer = self._client.query(
                    f"SELECT {', '.join(kind.identity)}, groupBitOr({bits or '0'}) AS bits"  # noqa: S608
                    f" FROM {table}"
                    f" WHERE {_TIME} >= fromUnixTimestamp64Nano({{first:Int64}}, 'UTC')"
                    f" AND {_TIME} <= fromUnixTimestamp64Nano({{last:Int64}}, 'UTC')"
                    " AND host IN {hosts:Array(String)}"
                    f" GROUP BY {', '.join(kind.identity)}",
                    {"first": first, "last": last, "hosts": some},
                )
                masks = _read_column(answer, "bits")
                for identity, mask in zip(_read_keys(answer, kind.identity), masks, strict=True):
                    if identity in wanted:
                        known[identity] = known.get(identity, 0) | mask
        return known


def _list_spans(times: "np.ndarray[Any, np.dtype[np.int64]]") -> list[tuple[int, int]]:
    """Return few spans of time that hold all times and leave out the longest gaps."""
    ordered = np.unique(times)
    # In Python: times at both ends of what fits are further apart than fits.
    values = ordered.tolist()
    gaps = [(later - earlier, at) for at, (earlier, later) in enumerate(pairwise(values), 1)]
    long = [at for gap, at in nlargest(_MAX_SPANS - 1, gaps) if gap > _LONG_GAP_NS]
    begins, ends = [0, *sorted(long)], [*sorted(long), len(values)]
    return [(values[begin], values[end - 1]) for begin, end in zip(begins, ends, strict=True)]


def _span_keys(rows: pa.Table, key: tuple[str, ...]) -> dict[_Identity, tuple[int, int]]:
    """Return the oldest and the newest time of each key."""
    spans = rows.group_by(list(key)).aggregate([(_TIME, "min"), (_TIME, "max")])
    oldest = _read_column(spans, f"{_TIME}_min")
    newest = _read_column(spans, f"{_TIME}_max")
    return dict(zip(_read_keys(spans, key), zip(oldest, newest, strict=True), strict=True))


def _find_repeats(
    rows: pa.Table, identity: tuple[str, ...]
) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    counts: dict[_Identity, int] = defaultdict(int)
    keys = list(_read_keys(rows, identity))
    for key in keys:
        counts[key] += 1
    return np.array([counts[key] > 1 for key in keys], np.bool_)


def _list_quantities(rows: pa.Table, kind: SampleTable) -> list[str]:
    return [name for name in rows.column_names if name not in {*kind.identity, *LABELS}]


def _erase(rows: pa.Table, erased: Mapping[str, Sequence[int]]) -> pa.Table:
    for name, numbers in erased.items():
        index = rows.column_names.index(name)
        column = rows.column(index)
        mask = np.zeros(rows.num_rows, np.bool_)
        mask[list(numbers)] = True
        replaced: Any = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
        rows = rows.set_column(index, rows.schema.field(index), replaced)
    return rows


def _read_keys(rows: pa.Table, names: tuple[str, ...]) -> Iterator[_Identity]:
    columns = [_read_column(rows, name) for name in names]
    return zip(*columns, strict=True)


def _read_column(rows: pa.Table, name: str) -> list[Any]:
    column: Any = rows[name]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return column.to_pylist()


def _read_texts(rows: pa.Table, name: str) -> list[str]:
    return [str(value) for value in rows[name].to_pylist()]


def _read_times(rows: pa.Table) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return rows[_TIME].cast(pa.int64()).combine_chunks().to_numpy(zero_copy_only=False)


def _chunk(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some
