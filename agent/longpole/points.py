"""Logged metrics as OTLP gauge points under the trainer's own names.

Encoded directly: the OpenTelemetry metrics API refuses names such as
`val-core/openai/gsm8k/acc/mean@1`, caps attribute sets and sends old points again.
"""

import math
from collections.abc import Sequence
from typing import TypeAlias

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Gauge,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole.conventions import attributes as names
from longpole.otlp import MAX_INT64, MIN_INT64, Encoded, encode_value

# (time_ns, iteration, name, value): one logged value of one step. The value is None when the
# trainer's was no number; the name is whatever the trainer used as a key.
Point: TypeAlias = tuple[int, int, object, int | float | None]


def encode_points(
    points: Sequence[Point], resource: Resource, scope: InstrumentationScope
) -> Encoded:
    """Encode points as one OTLP metrics request, one gauge per name.

    NaN is kept: that a loss became NaN is what a reader must see. Infinities are skipped.
    """
    steps: dict[int, list[KeyValue]] = {}
    gauges: dict[str, list[NumberDataPoint]] = {}
    num_points = sum(_add_point(point, steps, gauges) for point in points)
    metrics = [
        Metric(name=name, gauge=Gauge(data_points=data_points))
        for name, data_points in gauges.items()
    ]
    request = ExportMetricsServiceRequest(
        resource_metrics=[
            ResourceMetrics(
                resource=resource, scope_metrics=[ScopeMetrics(scope=scope, metrics=metrics)]
            )
        ]
    )
    return Encoded(request.SerializeToString(), num_points, len(points) - num_points)


def _add_point(
    point: Point, steps: dict[int, list[KeyValue]], gauges: dict[str, list[NumberDataPoint]]
) -> bool:
    """Encode a point into the gauge of its name; returns False when it cannot be sent."""
    time_ns, iteration, name, value = point
    try:
        encoded = _encode_point(time_ns, value, _encode_step(iteration, steps))
        gauges.setdefault(_check_name(name), []).append(encoded)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _encode_step(iteration: int, steps: dict[int, list[KeyValue]]) -> list[KeyValue]:
    attributes = steps.get(iteration)
    if attributes is None:
        attributes = [KeyValue(key=names.ITERATION, value=encode_value(iteration))]
        steps[iteration] = attributes
    return attributes


def _encode_point(time_ns: int, value: float | None, attributes: list[KeyValue]) -> NumberDataPoint:
    if value is None:
        raise TypeError("no number")
    if isinstance(value, int) and MIN_INT64 <= value <= MAX_INT64:
        return NumberDataPoint(time_unix_nano=time_ns, as_int=value, attributes=attributes)
    value = float(value)
    if math.isinf(value):
        raise ValueError("infinite")
    return NumberDataPoint(time_unix_nano=time_ns, as_double=value, attributes=attributes)


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise TypeError("a metric's name is text")
    # A lone surrogate cannot be sent; one bad name must not spoil the batch.
    name.encode()
    return name
