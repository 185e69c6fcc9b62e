"""Requests of agents that come again with other numbers: a node says the same every second.

In protobuf the times and values of number points have a fixed width, so that two requests of one
node differ in those bytes alone. Reading one of them tells where the numbers of all that follow
lie, and whose they are. One that differs in any other byte has another layout.

A part is the encoded `ResourceMetrics` of one sender.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint, ResourceMetrics

from longpole.conventions.gpus import GPU_COLUMN_OF_METRIC
from longpole_server.ingest.columns.wire import Ints, Words
from longpole_server.ingest.normalize.hardware import (
    GpuLabels,
    HardwarePivot,
    LabelReader,
    is_hardware,
    to_column,
)
from longpole_server.ingest.normalize.points import (
    NumberPoint,
    is_running_total,
    read_moment,
    read_number,
    read_point,
)
from longpole_server.ingest.normalize.sender import Sender
from longpole_server.ingest.normalize.spans import get_iteration

_WORD = np.dtype("<u8")
# What is written in place of numbers to see where they lie: this, and which number it is. All
# bytes of one differ from those of its complement, and as fractions both are numbers.
_MARK = 0x4000_0000_0000_0000
_ALL_BITS = 0xFFFF_FFFF_FFFF_FFFF


class _Point(NamedTuple):
    """A point of a part, and its place among those of its metric."""

    metric: Metric
    place: int
    point: NumberDataPoint


class _Slot(NamedTuple):
    """Which numbers of a part are a point's. `value` is None of a point that has none."""

    time: int
    value: int | None
    is_whole: bool


class _Gpu(NamedTuple):
    """The points of one GPU, with the column of each."""

    labels: GpuLabels
    columns: list[tuple[str, _Slot]]


class _Numbers:
    """The numbers of one part, in the order of its bytes."""

    def __init__(self, words: Words) -> None:
        content, count = words.tobytes(), len(words)
        self._times: tuple[int, ...] = struct.unpack(f"<{count}Q", content)
        self._wholes: tuple[int, ...] = struct.unpack(f"<{count}q", content)
        self._fractions: tuple[float, ...] = struct.unpack(f"<{count}d", content)

    def get_time_ns(self, slot: _Slot) -> int:
        return self._times[slot.time]

    def get_value(self, slot: _Slot) -> float | int | None:
        if slot.value is None:
            return None
        return self._wholes[slot.value] if slot.is_whole else self._fractions[slot.value]


class Reading(NamedTuple):
    """A part as its layout reads it."""

    layout: "Layout"
    numbers: _Numbers
    # All GPUs of a node are sampled at one time.
    gpu_time_ns: int

    def add_to(self, pivot: HardwarePivot, received_ns: int) -> int:
        """Hand the points to a pivot; return how many mean nothing."""
        layout, numbers = self.layout, self.numbers
        ts_ns = read_moment(self.gpu_time_ns, received_ns)
        for gpu in layout.gpus:
            columns = pivot.get_gpu(gpu.labels, ts_ns)
            for column, slot in gpu.columns:
                columns[column] = to_column(column, numbers.get_value(slot))
        num_ignored = layout.num_ignored
        for model, slot in layout.others:
            point = NumberPoint(
                model.name,
                model.unit,
                read_moment(numbers.get_time_ns(slot), received_ns),
                numbers.get_value(slot),
                model.values,
                model.is_total,
            )
            num_ignored += not pivot.add(point, layout.sender)
        return num_ignored


@dataclass(frozen=True, slots=True)
class Layout:
    """What the parts of one agent have in common, and where the numbers of each lie.

    Attributes:
        blank: Such a part with zeros in place of its numbers.
        starts: Where each number begins.
        gpu_times: Which numbers are times of GPUs' samples.
        others: Points that are no GPU's samples, all but their times and values.
        num_ignored: Points that mean nothing.
    """

    sender: Sender
    blank: bytes
    starts: Ints
    gpus: Sequence[_Gpu]
    gpu_times: Ints
    others: Sequence[tuple[NumberPoint, _Slot]]
    num_ignored: int

    def read(self, part: bytes) -> Reading | None:
        """Read a part; None of one that has another layout, or samples of several times."""
        if len(part) != len(self.blank):
            return None
        words, blank = _take_out(part, self.starts)
        if blank != self.blank:
            return None
        times = words[self.gpu_times]
        if len(times) and (times != times[0]).any():
            return None
        return Reading(self, _Numbers(words), int(times[0]) if len(times) else 0)


def learn_layout(part: bytes, sender: Sender) -> Layout | None:
    """Return the layout of an agent's part; None of one that is not written as agents write.

    Raises:
        DecodeError: It cannot be read.
    """
    message = ResourceMetrics.FromString(part)
    points = _list_points(message)
    if not points:
        return None
    marked, differing = _mark(message, points, 0), _mark(message, points, _ALL_BITS)
    if not len(marked) == len(differing) == len(part):
        return None
    differs = np.frombuffer(marked, np.uint8) != np.frombuffer(differing, np.uint8)
    starts = np.flatnonzero(differs)[:: _WORD.itemsize]
    words, blank = _take_out(marked, starts)
    if _take_out(part, starts)[1] != blank:
        return None
    word_of_number = {word ^ _MARK: place for place, word in enumerate(words.tolist())}
    slots = [
        _Slot(
            word_of_number[2 * number],
            word_of_number.get(2 * number + 1) if read_number(point) is not None else None,
            point.WhichOneof("value") == "as_int",
        )
        for number, (_, _, point) in enumerate(points)
    ]
    return _sort_points(points, slots, sender, blank, starts)


def _list_points(message: ResourceMetrics) -> list[_Point]:
    """Return the points of a part, none when it holds others than those of gauges and sums."""
    found: list[_Point] = []
    for scope_metrics in message.scope_metrics:
        for metric in scope_metrics.metrics:
            kind = metric.WhichOneof("data")
            if kind not in {"gauge", "sum"}:
                return []
            of_metric = metric.gauge if kind == "gauge" else metric.sum
            found += (
                _Point(metric, place, point) for place, point in enumerate(of_metric.data_points)
            )
    return found


def _mark(message: ResourceMetrics, points: Sequence[_Point], flipped: int) -> bytes:
    """Encode a part in which the time of point `n` is number `2n`, and its value is `2n + 1`."""
    for number, (_, _, point) in enumerate(points):
        point.time_unix_nano = _MARK + 2 * number ^ flipped
        word = struct.pack("<Q", _MARK + 2 * number + 1 ^ flipped)
        kind = point.WhichOneof("value")
        if kind == "as_double":
            (point.as_double,) = struct.unpack("<d", word)
        elif kind == "as_int":
            (point.as_int,) = struct.unpack("<q", word)
    return message.SerializeToString()


def _sort_points(
    points: Sequence[_Point],
    slots: Sequence[_Slot],
    sender: Sender,
    blank: bytes,
    starts: Ints,
) -> Layout:
    """Note whose each point is, as `MetricReader` would."""
    gpus: dict[tuple[str, str], _Gpu] = {}
    gpu_times: list[int] = []
    others: list[tuple[NumberPoint, _Slot]] = []
    num_ignored = 0
    reader = LabelReader()
    for (metric, place, point), slot in zip(points, slots, strict=True):
        column = GPU_COLUMN_OF_METRIC.get(metric.name)
        if column is None:
            model = read_point(metric, point, 0, is_total=is_running_total(metric))
            if is_hardware(model.name) and get_iteration(model.values) is None:
                others.append((model, slot))
            else:
                num_ignored += 1
            continue
        labels = reader.read(place, point, sender)
        if labels.uuid is None:
            num_ignored += 1
            continue
        # Without its attributes, which hold the whole message.
        gpu = gpus.setdefault((labels.host, labels.uuid), _Gpu(labels._replace(attributes=()), []))
        gpu.columns.append((column, slot))
        gpu_times.append(slot.time)
    times = np.array(gpu_times, np.int64)
    return Layout(sender, blank, starts, list(gpus.values()), times, others, num_ignored)


def _take_out(part: bytes, starts: Ints) -> tuple[Words, bytes]:
    """Return the words of a part, and the part with zeros in their place."""
    blank = bytearray(part)
    # Every place of the part seen as the beginning of a word.
    window: Words = np.ndarray(
        (len(blank) - _WORD.itemsize + 1,), _WORD, buffer=blank, strides=(1,)
    )
    words = window[starts]
    window[starts] = 0
    return words, bytes(blank)
