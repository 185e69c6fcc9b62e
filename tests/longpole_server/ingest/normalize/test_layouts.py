"""Metrics read by the layout of those before are what they are when each is read anew."""

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from longpole_server.errors import BadRequestError
from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp

AGENT = otlp.resource(service__name="longpole-agent", host__name="node0", process__pid=7)
TRAINER = otlp.resource(service__name="trainer", host__name="node0", process__pid=8)
GPUS: tuple[Mapping[str, object], ...] = (
    {"hw.id": "GPU-0", "gpu.index": 0, "hw.model": "H100"},
    {"hw.id": "GPU-1", "gpu.index": 1, "hw.model": "H100", "hw.type": "gpu"},
    {"hw.id": "MIG-0", "gpu.index": 0, "hw.parent": "GPU-0", "hw.gpu.mig.profile": "1g.10gb"},
    {"hw.id": "GPU-0", "gpu.index": 0, "hw.gpu.task": "encoder"},
    {"hw.id": "disk0", "hw.type": "disk"},
    {"hw.id": "GPU-1", "rl.loop.iteration": 3},
    {"hw.id": "GPU-0", "process.pid": 17, "process.title": "ray::work"},
    {"network.io.direction": "receive"},
    {"system.memory.state": "used"},
    {},
)
NAMES = (
    "hw.gpu.utilization",
    "hw.gpu.memory.usage",
    "hw.power",
    "hw.energy",
    "hw.gpu.xid",
    "hw.fan.speed",
    "process.gpu.memory.usage",
    "process.memory.private",
    "system.network.io",
    "system.memory.usage",
    "longpole.agent.dropped",
    "loss",
)
FRACTIONS = st.floats() | st.sampled_from((0.0, -0.0, 0.5, 61.04))
WHOLES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from((0, 1, 80_000_000_000))
SECONDS = st.sampled_from((1.0, 1.0, 1.0, 2.0, 3.5))


@dataclass(frozen=True)
class Point:
    """A point of a layout: whose it is and what kind of value it has, None for none at all."""

    labels: Mapping[str, object]
    kind: type[float] | type[int] | None


@dataclass(frozen=True)
class Series:
    name: str
    is_counter: bool
    points: tuple[Point, ...]


POINTS = st.builds(Point, st.sampled_from(GPUS), st.sampled_from((float, float, int, None)))
SERIES = st.builds(
    Series, st.sampled_from(NAMES), st.booleans(), st.lists(POINTS, max_size=4).map(tuple)
)


def make_metric(series: Series, draw: st.DataObject, time_s: float) -> Metric:
    points: list[tuple[float, object, Mapping[str, object]]] = []
    for point in series.points:
        values = {float: FRACTIONS, int: WHOLES, None: st.none()}[point.kind]
        point_s = draw.draw(st.just(time_s) | SECONDS)
        points.append((point_s, draw.draw(values), point.labels))
    return (otlp.counter if series.is_counter else otlp.gauge)(series.name, points)


def read(normalizer: Normalizer, body: bytes, at_s: float) -> Records:
    records = Records()
    normalizer.normalize("metrics", body, otlp.at(at_s), records)
    return records


@settings(max_examples=120)
@given(data=st.data(), layout=st.lists(SERIES, min_size=1, max_size=4))
def test_what_a_layout_reads_is_what_stands_there(
    data: st.DataObject, layout: list[Series]
) -> None:
    by_layout, anew = Normalizer(), Normalizer(max_layout_bytes=0)

    for second in range(4):
        metrics = [make_metric(series, data, float(second)) for series in layout]
        parts = [(AGENT, metrics)]
        if data.draw(st.booleans()):
            parts.append((TRAINER, [otlp.gauge("loss", [(second, 0.5, {})])]))
        body = otlp.metrics(*parts)

        assert repr(read(by_layout, body, second + 1)) == repr(read(anew, body, second + 1))

    assert by_layout.stats == anew.stats
    assert anew.num_read_by_layout == 0


def sample(second: int, value: object, **labels: object) -> bytes:
    gpu = {**GPUS[0], **labels}
    return otlp.metrics((AGENT, [otlp.gauge("hw.power", [(second, value, gpu)])]))


def test_the_third_request_of_a_node_is_read_by_its_layout() -> None:
    normalizer = Normalizer()

    watts = [
        read(normalizer, sample(second, 60.0 + second), second).gpu_samples for second in range(4)
    ]

    assert [[one.power_watts for one in each] for each in watts] == [[60.0], [61.0], [62.0], [63.0]]
    assert [each[0].ts_ns for each in watts] == [otlp.at(second) for second in range(4)]
    assert normalizer.num_read_by_layout == 2


@pytest.mark.parametrize(
    "other",
    (
        sample(9, 1, **{"hw.id": "GPU-7"}),
        sample(9, 1.0, **{"hw.id": "GPU-7"}),
        sample(9, None),
        otlp.metrics((AGENT, [otlp.gauge("hw.energy", [(9, 1.0, GPUS[0])])])),
    ),
    ids=("whole-number", "other-gpu", "no-value", "other-metric"),
)
def test_a_request_that_differs_in_more_than_numbers_is_read_anew(other: bytes) -> None:
    normalizer = Normalizer()
    for second in range(3):
        read(normalizer, sample(second, 60.0), second)
    known = normalizer.num_read_by_layout

    records = read(normalizer, other, 9)

    assert repr(records) == repr(read(Normalizer(), other, 9))
    assert normalizer.num_read_by_layout == known


def test_a_node_whose_requests_change_all_the_time_is_not_learned_again_and_again() -> None:
    normalizer = Normalizer()

    for second in range(200):
        read(normalizer, sample(second, 1.0, **{"hw.id": f"GPU-{second % 7}"}), second)

    assert normalizer.num_read_by_layout < 5


def test_a_request_that_is_damaged_behind_a_known_part_is_refused_whole() -> None:
    normalizer = Normalizer()
    for second in range(3):
        read(normalizer, sample(second, 60.0), second)
    records = Records()

    with pytest.raises(BadRequestError):
        normalizer.normalize(
            "metrics", sample(3, 60.0) + b"\x0a\x03\x0a\x09\x01", otlp.at(3), records
        )

    assert len(records) == 0
