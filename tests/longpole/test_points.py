import math

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from longpole.otlp import build_scope, encode_resource
from longpole.points import Point, encode_points
from support.sdk_receiver import ReceivedPoint, decode_points

RESOURCE = encode_resource({"rl.run.id": "r"})


def send(points: list[Point]) -> tuple[list[ReceivedPoint], int, int]:
    encoded = encode_points(points, RESOURCE, build_scope())
    return list(decode_points(encoded.body)), encoded.num_records, encoded.num_skipped


def test_names_that_the_metrics_api_refuses_are_sent_as_they_are() -> None:
    names = ["val-core/openai/gsm8k/acc/mean@1", "timing_s/gen", "x" * 400, "Ünï kode %{}"]
    received, num_sent, num_skipped = send([(5, 7, name, 0.5) for name in names])
    assert [point.name for point in received] == names
    assert (num_sent, num_skipped) == (4, 0)
    assert received[0] == ReceivedPoint(
        names[0], 0.5, 5, {"rl.loop.iteration": 7}, {"rl.run.id": "r"}
    )


def test_points_of_one_name_share_a_gauge() -> None:
    encoded = encode_points([(1, 1, "a", 1), (2, 2, "a", 2.5)], RESOURCE, build_scope())
    request = ExportMetricsServiceRequest.FromString(encoded.body)
    (metric,) = request.resource_metrics[0].scope_metrics[0].metrics
    first, second = metric.gauge.data_points
    assert (first.as_int, second.as_double) == (1, 2.5)


def test_nan_is_kept_and_what_is_no_number_is_skipped() -> None:
    points: list[Point] = [
        (1, 1, "nan", math.nan),
        (1, 1, "infinite", math.inf),
        (1, 1, "none", None),
        (1, 1, "", 1.0),
        (1, 1, 3, 1.0),
        (1, 1, "\ud800", 1.0),
        (-1, 1, "time", 1.0),
        (1, 1, "too large", 10**400),
        (1, 1, "large", 1 << 70),
    ]
    received, num_sent, num_skipped = send(points)
    assert [point.name for point in received] == ["nan", "large"]
    assert math.isnan(received[0].value)
    assert received[1].value == float(1 << 70)
    assert (num_sent, num_skipped) == (2, 7)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1 << 62),
            st.integers(-(1 << 62), 1 << 62),
            st.text(min_size=1),
            st.one_of(st.none(), st.integers(), st.floats()),
        )
    )
)
def test_every_point_is_sent_or_skipped(points: list[Point]) -> None:
    received, num_sent, num_skipped = send(points)
    assert len(received) == num_sent
    assert num_sent + num_skipped == len(points)
