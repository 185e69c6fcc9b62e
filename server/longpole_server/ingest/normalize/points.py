"""Number points of OTLP metrics, with the labels that tell series of one name apart."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    Metric,
    NumberDataPoint,
)

from longpole_server.ingest.normalize.attributes import (
    Values,
    format_value,
    is_of_our_time,
    read_attributes,
    read_time,
)

_NO_VALUE = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
_QUOTED = re.compile(r'[\\"]')


@dataclass(frozen=True, slots=True)
class NumberPoint:
    """One value of a gauge or sum.

    Attributes:
        ts_ns: UTC nanoseconds.
        value: None says that the series exists and has no value.
        is_total: Whether it is a sum that only grows, counted since some start.
    """

    name: str
    unit: str
    ts_ns: int
    value: int | float | None
    values: Values
    is_total: bool


def read_points(metric: Metric, received_ns: int) -> Iterator[NumberPoint]:
    """Read the points of a gauge or sum; of histograms their count and sum.

    Count and sum of a histogram get the names Prometheus gives them.
    """
    match metric.WhichOneof("data"):
        case "gauge":
            for point in metric.gauge.data_points:
                yield read_point(metric, point, received_ns, is_total=False)
        case "sum":
            is_total = is_running_total(metric)
            for point in metric.sum.data_points:
                yield read_point(metric, point, received_ns, is_total=is_total)
        case "histogram":
            for point in metric.histogram.data_points:
                values = read_attributes(point.attributes)
                ts_ns = read_moment(point.time_unix_nano, received_ns)
                count, total = float(point.count), point.sum if point.HasField("sum") else None
                yield NumberPoint(f"{metric.name}_count", "1", ts_ns, count, values, True)
                yield NumberPoint(f"{metric.name}_sum", metric.unit, ts_ns, total, values, True)
        case _:
            return


def read_point(
    metric: Metric, point: NumberDataPoint, received_ns: int, *, is_total: bool
) -> NumberPoint:
    """Read a point of a gauge or sum."""
    return NumberPoint(
        name=metric.name,
        unit=metric.unit,
        ts_ns=read_moment(point.time_unix_nano, received_ns),
        value=read_number(point),
        values=read_attributes(point.attributes),
        is_total=is_total,
    )


def is_running_total(metric: Metric) -> bool:
    """Tell whether the points of a metric are sums that only grow, counted since some start."""
    of_metric = metric.sum
    return of_metric.is_monotonic and of_metric.aggregation_temporality == _CUMULATIVE


def read_number(point: NumberDataPoint) -> int | float | None:
    """Return the value of a point, None when it says that it has none."""
    if point.flags & _NO_VALUE:
        return None
    kind = point.WhichOneof("value")
    if kind == "as_double":
        return point.as_double
    return point.as_int if kind == "as_int" else None


def label_name(name: str, values: Values, without: Collection[str]) -> str:
    """Return the name of a series: with the labels, in order, that are not in `without`."""
    labels = [
        f'{key}="{_QUOTED.sub(_escape, format_value(value))}"'
        for key, value in sorted(values.items())
        if key not in without
    ]
    return f"{name}{{{','.join(labels)}}}" if labels else name


def _escape(match: "re.Match[str]") -> str:
    return "\\" + match[0]


def read_moment(time_ns: int, received_ns: int) -> int:
    """Return a point's time: when it came, where it names none that a clock could show."""
    ts_ns = read_time(time_ns)
    return ts_ns if is_of_our_time(ts_ns, received_ns) else received_ns
