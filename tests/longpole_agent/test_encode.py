from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from longpole_agent.encode import MetricsEncoder
from longpole_agent.sources.source import Point

GPU_0 = (("hw.id", "GPU-0"), ("gpu.index", 0))
GPU_1 = (("hw.id", "GPU-1"), ("gpu.index", 1))


def encode(*points: Point) -> ExportMetricsServiceRequest:
    return ExportMetricsServiceRequest.FromString(MetricsEncoder("node-1", 42).encode(points))


def metrics_of(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    (of_resource,) = request.resource_metrics
    (of_scope,) = of_resource.scope_metrics
    return {metric.name: metric for metric in of_scope.metrics}


def test_the_resource_says_which_node_and_process() -> None:
    request = encode(Point("hw.power", "W", "gauge", 1, 1.0))
    attributes = {
        attribute.key: attribute.value.string_value or attribute.value.int_value
        for attribute in request.resource_metrics[0].resource.attributes
    }
    assert attributes["host.name"] == "node-1"
    assert attributes["service.name"] == "longpole-agent"
    assert attributes["process.pid"] == 42


def test_one_metric_per_name_with_a_point_per_entity() -> None:
    metrics = metrics_of(
        encode(
            Point("hw.power", "W", "gauge", 5, 612.5, GPU_0),
            Point("hw.temperature", "Cel", "gauge", 5, 61.0, GPU_0),
            Point("hw.power", "W", "gauge", 5, 300.0, GPU_1),
        )
    )
    assert metrics.keys() == {"hw.power", "hw.temperature"}
    power = metrics["hw.power"]
    assert power.unit == "W"
    points = power.gauge.data_points
    assert [(point.time_unix_nano, point.as_double) for point in points] == [(5, 612.5), (5, 300.0)]
    assert [attribute.key for attribute in points[1].attributes] == ["hw.id", "gpu.index"]
    assert points[1].attributes[0].value.string_value == "GPU-1"
    assert points[1].attributes[1].value.int_value == 1


def test_whole_numbers_stay_whole() -> None:
    metrics = metrics_of(encode(Point("a", "By", "gauge", 1, (1 << 53) + 1)))
    assert metrics["a"].gauge.data_points[0].as_int == (1 << 53) + 1


def test_counters_are_monotonic_sums_and_totals_are_not() -> None:
    metrics = metrics_of(
        encode(
            Point("hw.energy", "J", "counter", 1, 5.0),
            Point("hw.gpu.memory.usage", "By", "total", 1, 7),
        )
    )
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert metrics["hw.energy"].sum.is_monotonic
    assert not metrics["hw.gpu.memory.usage"].sum.is_monotonic
    for metric in metrics.values():
        assert metric.sum.aggregation_temporality == cumulative


def test_an_unknown_value_is_no_zero() -> None:
    (point,) = metrics_of(encode(Point("a", "By", "total", 1, None)))["a"].sum.data_points
    assert point.flags == 1  # NO_RECORDED_VALUE
    assert point.WhichOneof("value") is None


def test_points_of_others_go_under_their_own_resource() -> None:
    engine = (("service.name", "vllm"), ("service.instance.id", "r0"))
    request = encode(
        Point("hw.power", "W", "gauge", 1, 1.0),
        Point("vllm:x", "", "gauge", 1, 2.0, resource=engine),
        Point("vllm:y", "", "gauge", 1, 3.0, resource=engine),
    )
    own, others = request.resource_metrics
    assert len(own.scope_metrics[0].metrics) == 1
    assert [metric.name for metric in others.scope_metrics[0].metrics] == ["vllm:x", "vllm:y"]
    attributes = {each.key: each.value.string_value for each in others.resource.attributes}
    assert attributes == {**dict(engine), "host.name": "node-1"}
