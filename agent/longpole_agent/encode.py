"""Points to an OTLP metrics request, windows of titles to one of traces."""

import hashlib
from collections.abc import Iterable, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    DataPointFlags,
    Metric,
    NumberDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole import __version__
from longpole.conventions.attributes import HOST_NAME, PROCESS_PID, SERVICE_NAME
from longpole.conventions.ray_titles import LANE_PREFIX
from longpole.conventions.rl_insight import JOB, LANE, STATE
from longpole_agent.sources.ray.lanes import TitleLane
from longpole_agent.sources.source import Attributes, Point

_SCOPE = "longpole.agent"
_SERVICE = "longpole-agent"
_RAY_SERVICE = "ray"


class MetricsEncoder:
    """Encodes points under the resources that say them: this agent, unless a point names another.

    Args:
        host_name: `host.name` of everything sampled here.
        pid: Process id of the agent.
    """

    def __init__(self, host_name: str, pid: int) -> None:
        identity: Attributes = (
            (SERVICE_NAME, _SERVICE),
            ("service.version", __version__),
            (HOST_NAME, host_name),
            (PROCESS_PID, pid),
        )
        self._host_name = host_name
        self._resource = Resource(attributes=_encode_attributes(identity))
        self._scope = InstrumentationScope(name=_SCOPE, version=__version__)

    def encode(self, points: Iterable[Point]) -> bytes:
        """Return one `ExportMetricsServiceRequest` with a metric per resource and name."""
        metrics: dict[Attributes, dict[str, Metric]] = {}
        attributes: dict[Attributes, list[KeyValue]] = {}
        for point in points:
            of_resource = metrics.setdefault(point.resource, {})
            metric = of_resource.get(point.metric)
            if metric is None:
                metric = of_resource[point.metric] = _begin_metric(point)
            encoded = attributes.get(point.attributes)
            if encoded is None:
                encoded = attributes[point.attributes] = _encode_attributes(point.attributes)
            points_of_metric = metric.gauge if point.kind == "gauge" else metric.sum
            points_of_metric.data_points.append(_encode_point(point, encoded))
        request = ExportMetricsServiceRequest()
        for resource, by_name in metrics.items():
            encoded_resource = self._encode_resource(resource)
            resource_metrics = request.resource_metrics.add(resource=encoded_resource)
            resource_metrics.scope_metrics.add(scope=self._scope, metrics=by_name.values())
        return request.SerializeToString()

    def _encode_resource(self, resource: Attributes) -> Resource:
        if not resource:
            return self._resource
        named = (*resource, (HOST_NAME, self._host_name))
        return Resource(attributes=_encode_attributes(named))


def encode_lanes(lanes: Iterable[TitleLane], host_name: str) -> bytes:
    """Return one `ExportTraceServiceRequest` with a span per window, under its worker's job.

    The same window has the same ids, whoever sends it again.
    """
    request = ExportTraceServiceRequest()
    spans: dict[str, list[Span]] = {}
    for lane in lanes:
        spans.setdefault(lane.job, []).append(_encode_lane(lane, host_name))
    for job, of_job in spans.items():
        named: Attributes = ((SERVICE_NAME, _RAY_SERVICE), (HOST_NAME, host_name), (JOB, job))
        resource_spans = request.resource_spans.add(
            resource=Resource(attributes=_encode_attributes(named))
        )
        resource_spans.scope_spans.add(
            scope=InstrumentationScope(name=_SCOPE, version=__version__), spans=of_job
        )
    return request.SerializeToString()


def _encode_lane(lane: TitleLane, host_name: str) -> Span:
    identity = f"{host_name}/{lane.job}/{lane.pid}/{lane.start_ns}"
    digest = hashlib.sha256(identity.encode()).digest()
    attributes: Attributes = (
        (LANE, f"{LANE_PREFIX}{lane.pid}"),
        (STATE, lane.title),
        ("process_id", lane.pid),
    )
    return Span(
        trace_id=digest[:16],
        span_id=digest[16:24],
        name=lane.title,
        start_time_unix_nano=lane.start_ns,
        end_time_unix_nano=lane.end_ns,
        attributes=_encode_attributes(attributes),
    )


def _begin_metric(point: Point) -> Metric:
    metric = Metric(name=point.metric, unit=point.unit)
    if point.kind == "gauge":
        metric.gauge.SetInParent()
    else:
        metric.sum.is_monotonic = point.kind == "counter"
        metric.sum.aggregation_temporality = (
            AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        )
    return metric


def _encode_point(point: Point, attributes: Sequence[KeyValue]) -> NumberDataPoint:
    encoded = NumberDataPoint(time_unix_nano=point.ts_ns, attributes=attributes)
    if point.value is None:
        encoded.flags = DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    elif isinstance(point.value, int):
        encoded.as_int = point.value
    else:
        encoded.as_double = point.value
    return encoded


def _encode_attributes(attributes: Attributes) -> list[KeyValue]:
    return [
        KeyValue(
            key=key,
            value=AnyValue(int_value=value)
            if isinstance(value, int)
            else AnyValue(string_value=value),
        )
        for key, value in attributes
    ]
