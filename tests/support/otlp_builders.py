"""Short ways to write OTLP requests in tests. Times are seconds after `T0_NS`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Signal = Literal["traces", "metrics", "logs"]
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
SCOPE = InstrumentationScope(name="tests", version="1")
T0_NS = 1_760_000_000_000_000_000
NS = 1_000_000_000


def at(seconds: float) -> int:
    """UTC nanoseconds of `seconds` after the tests' origin of time."""
    return T0_NS + round(seconds * 1000) * (NS // 1000)


def any_value(value: object) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case list() | tuple():
            elements = cast("Sequence[object]", value)
            return AnyValue(array_value=ArrayValue(values=[any_value(v) for v in elements]))
        case _:
            return AnyValue(string_value=str(value))


def attributes(values: Mapping[str, object]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in values.items()]


def resource(values: Mapping[str, object] | None = None, **more: object) -> Resource:
    """A resource; keyword arguments have `__` for a dot."""
    named = {key.replace("__", "."): value for key, value in more.items()}
    return Resource(attributes=attributes({**(values or {}), **named}))


def process(
    run_id: str | None = "run",
    *,
    role: str | None = "controller",
    host: str = "node0",
    pid: int | None = 100,
    start_s: float | None = 0.0,
    **more: object,
) -> Resource:
    """The resource of a process as Longpole's SDK sends it."""
    values: dict[str, object] = {"service.name": "trainer", "host.name": host}
    if run_id is not None:
        values["rl.run.id"] = run_id
    if role is not None:
        values["rl.role"] = role
    if pid is not None:
        values["process.pid"] = pid
    if start_s is not None:
        values["rl.process.start_ns"] = at(start_s)
    return resource(values, **more)


def span(
    name: str,
    start_s: float,
    end_s: float,
    values: Mapping[str, object] | None = None,
    *,
    trace: bytes | None = None,
    id: bytes | None = None,  # noqa: A002 - the protocol's word for it
    parent: bytes = b"",
    **more: Any,
) -> Span:
    return Span(
        trace_id=trace or os.urandom(16),
        span_id=id or os.urandom(8),
        parent_span_id=parent,
        name=name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=at(start_s),
        end_time_unix_nano=at(end_s),
        attributes=attributes(values or {}),
        **more,
    )


def loop(step: int, start_s: float, end_s: float, **more: Any) -> Span:
    values = {"rl.loop.iteration": step, **more.pop("values", {})}
    return span("rl.loop", start_s, end_s, values, **more)


def stage(stage: str, step: int | None, start_s: float, end_s: float, **more: Any) -> Span:
    values: dict[str, object] = {"rl.stage": stage, **more.pop("values", {})}
    if step is not None:
        values["rl.loop.iteration"] = step
    return span("rl.stage", start_s, end_s, values, **more)


def traces(*batches: tuple[Resource, Sequence[Span]]) -> bytes:
    request = ExportTraceServiceRequest()
    for sender, spans in batches:
        of_resource = request.resource_spans.add(resource=sender)
        of_resource.scope_spans.add(scope=SCOPE, spans=spans)
    return request.SerializeToString()


def gauge(
    name: str, points: Sequence[tuple[float, object, Mapping[str, object]]], unit: str = "1"
) -> Metric:
    """A gauge whose points are (seconds, value, attributes)."""
    metric = Metric(name=name, unit=unit)
    metric.gauge.SetInParent()
    _add_points(metric.gauge.data_points, points)
    return metric


def counter(
    name: str, points: Sequence[tuple[float, object, Mapping[str, object]]], unit: str = "1"
) -> Metric:
    """A cumulative monotonic sum whose points are (seconds, value, attributes)."""
    metric = Metric(name=name, unit=unit)
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = CUMULATIVE
    _add_points(metric.sum.data_points, points)
    return metric


def histogram(name: str, seconds: float, *, count: int, total: float) -> Metric:
    metric = Metric(name=name, unit="s")
    metric.histogram.aggregation_temporality = CUMULATIVE
    metric.histogram.data_points.add(time_unix_nano=at(seconds), count=count, sum=total)
    return metric


def metrics(*batches: tuple[Resource, Sequence[Metric]]) -> bytes:
    request = ExportMetricsServiceRequest()
    for sender, items in batches:
        request.resource_metrics.add(resource=sender).scope_metrics.add(metrics=items)
    return request.SerializeToString()


def logs(*batches: tuple[Resource, Sequence[tuple[str, float, Mapping[str, object]]]]) -> bytes:
    """Events of (name, seconds, attributes)."""
    request = ExportLogsServiceRequest()
    for sender, events in batches:
        scope_logs = request.resource_logs.add(resource=sender).scope_logs.add()
        for name, seconds, values in events:
            scope_logs.log_records.add(
                time_unix_nano=at(seconds), event_name=name, attributes=attributes(values)
            )
    return request.SerializeToString()


def _add_points(target: Any, points: Sequence[tuple[float, object, Mapping[str, object]]]) -> None:
    for seconds, value, values in points:
        point = target.add(time_unix_nano=at(seconds), attributes=attributes(values))
        if isinstance(value, float):
            point.as_double = value
        elif value is None:
            point.flags = 1
        else:
            point.as_int = value
