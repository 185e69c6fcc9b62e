"""Numbered requests, what became of each, and whether the store agrees to the row."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from support import otlp_builders as otlp
from support.store_opening import OpenedStore

RUN_ID = "faults"
GPUS = ("GPU-0", "GPU-1")
TRAJECTORIES = 3
# Rows in the table of raw spans for a request of traces: its samples and a stage.
SPANS = TRAJECTORIES + 1

# "acknowledged": a durable owner said yes. "unknown": no answer came, or a refusal that says to
# come back. "refused": an answer that says that nothing was kept.
Outcome = Literal["acknowledged", "unknown", "refused"]
Kind = Literal["traces", "metrics"]
KINDS: tuple[Kind, Kind] = ("traces", "metrics")


def make_request(kind: Kind, number: int, skew_s: float = 0.0) -> bytes:
    """The request of a number; no two share a row. `skew_s`: its sender's clock is ahead."""
    now_s = number * 0.05 + skew_s
    step = number // 200
    sender = otlp.process(RUN_ID, rl__run__attempt=1)
    if kind == "traces":
        trace = number.to_bytes(16, "big")
        spans = [
            otlp.span(
                "rl.trajectory",
                now_s,
                now_s + 1,
                {"rl.loop.iteration": step, "rl.trajectory.id": f"{number}/{index}"},
                trace=trace,
                id=(number * SPANS + index).to_bytes(8, "big"),
            )
            for index in range(1, TRAJECTORIES + 1)
        ]
        span_id = (number * SPANS + SPANS).to_bytes(8, "big")
        spans.append(otlp.stage("gen", step, now_s, now_s + 1, trace=trace, id=span_id))
        return otlp.traces((sender, spans))
    values = [(now_s, 0.5, {"hw.id": gpu, "gpu.index": index}) for index, gpu in enumerate(GPUS)]
    scalar = [(now_s, float(number), {"rl.loop.iteration": step})]
    node = otlp.resource({"host.name": "node-0"})
    return otlp.metrics(
        (sender, [otlp.gauge(f"number/{number}", scalar)]),
        (node, [otlp.gauge("hw.gpu.utilization", values)]),
    )


@dataclass
class Ledger:
    """What was sent. Thread-safe.

    Attributes:
        outcomes: By kind and number.
    """

    outcomes: dict[Kind, dict[int, Outcome]] = field(
        default_factory=lambda: {"traces": {}, "metrics": {}}
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0

    def take(self) -> int:
        """Return a number that nobody has."""
        with self._lock:
            self._next += 1
            return self._next

    def note(self, kind: Kind, number: int, outcome: Outcome) -> None:
        """Write down what became of a request; what was acknowledged stays so."""
        with self._lock:
            if self.outcomes[kind].get(number) != "acknowledged":
                self.outcomes[kind][number] = outcome

    def count(self, outcome: Outcome) -> int:
        """How many requests had an outcome."""
        with self._lock:
            return sum(Counter(one.values())[outcome] for one in self.outcomes.values())

    def check(self, opened: OpenedStore) -> str:
        """Compare with the store, row by row; return the count of both for people.

        Every acknowledged request is there whole, each of its rows once, in raw tables and rollups;
        a request without an answer is there whole or not at all; nothing else is there.
        """
        spans = _query(
            opened,
            "SELECT reinterpretAsUInt64(reverse(unhex(TraceId))) AS number, count() AS num"
            " FROM otel_traces GROUP BY number",
        )
        samples = _query(
            opened, "SELECT trajectory_id, count() AS num FROM trajectories GROUP BY 1"
        )
        stages = _query(
            opened,
            "SELECT reinterpretAsUInt64(reverse(unhex(trace_id))) AS number, count() AS num"
            " FROM stage_spans GROUP BY number",
        )
        found = self._check_whole("traces", spans, SPANS)
        parts = {f"{number}/{index}" for number in found for index in range(1, TRAJECTORIES + 1)}
        assert samples == dict.fromkeys(parts, 1)
        assert stages == dict.fromkeys(found, 1)
        scalars = _query(
            opened,
            "SELECT toInt64(replaceOne(name, 'number/', '')) AS number, count() AS num"
            " FROM metric_points WHERE name LIKE 'number/%' GROUP BY number",
        )
        points = self._check_whole("metrics", scalars, 1)
        gpus = _query(
            opened,
            "SELECT concat(gpu_uuid, '@', toString(toUnixTimestamp64Nano(ts_ns))) AS key, count()"
            " FROM gpu_samples WHERE host = 'node-0' GROUP BY key",
        )
        expected = {f"{gpu}@{otlp.at(number * 0.05)}" for number in points for gpu in GPUS}
        assert gpus == dict.fromkeys(expected, 1)
        for table in ("gpu_samples_10s", "gpu_samples_60s"):
            total = _query(
                opened,
                f"SELECT 'all', toInt64(sum(utilization_ratio_count)) FROM {table}"
                " WHERE host = 'node-0'",
            )
            assert total == {"all": len(expected)}, table
        rows = sum(spans.values()) + sum(samples.values()) + sum(stages.values())
        rows += sum(scalars.values()) + sum(gpus.values())
        return (
            f"{self.count('acknowledged')} requests acknowledged, {self.count('unknown')} unknown,"
            f" {len(found) + len(points)} stored, {rows} rows, each once"
        )

    def _check_whole(self, kind: Kind, stored: dict[int, int], rows: int) -> set[int]:
        outcomes = self.outcomes[kind]
        acknowledged = {number for number, what in outcomes.items() if what == "acknowledged"}
        unknown = {number for number, what in outcomes.items() if what == "unknown"}
        assert acknowledged <= set(stored), f"lost: {sorted(acknowledged - set(stored))[:20]}"
        assert set(stored) <= acknowledged | unknown, f"from nowhere: {sorted(stored)[:20]}"
        wrong = {number: num for number, num in stored.items() if num != rows}
        assert not wrong, f"rows of a request, not {rows}: {wrong}"
        return set(stored)


def _query(opened: OpenedStore, sql: str) -> dict[Any, int]:
    table = opened.client.query(sql)
    keys: list[Any] = table.column(0).to_pylist()
    return {
        key: int(count or 0) for key, count in zip(keys, table.column(1).to_pylist(), strict=True)
    }
