from collections.abc import Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_server.errors import StoreError
from longpole_server.ingest.nameless import name_senders
from support import otlp_builders as otlp


def make_request(values: Mapping[str, object], *, is_monitored: bool = True) -> bytes:
    attributes = {"monitor.trace_segment": "state_interval"} if is_monitored else {}
    span = otlp.span("actor_update", 1.0, 2.0, attributes)
    return otlp.traces((otlp.resource(values), [span]))


def read_resource(body: bytes) -> dict[str, str]:
    (spans,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return {pair.key: pair.value.string_value for pair in spans.resource.attributes}


def test_who_names_nothing_is_named_by_where_it_comes_from() -> None:
    body = make_request({"service.name": "rl_insight_monitor"})
    named = read_resource(name_senders(body, "10.0.0.1", lambda peer: f"job of {peer}"))
    assert named["longpole.job"] == "job of 10.0.0.1"
    assert named["host.name"] == "10.0.0.1"
    assert "host.name" not in read_resource(name_senders(body, "127.0.0.1", lambda _: "job"))


def test_others_pass_as_they_came() -> None:
    plain = make_request({"service.name": "x"}, is_monitored=False)
    named = make_request({"host.name": "node0"})
    nobody_s = make_request({"service.name": "rl_insight_monitor"})
    assert name_senders(plain, "10.0.0.1", lambda _: "job") is plain
    assert name_senders(named, "10.0.0.1", lambda _: "job") is named
    assert name_senders(nobody_s, "10.0.0.1", lambda _: "") is nobody_s
    assert name_senders(nobody_s, None, lambda _: "job") is nobody_s
    assert name_senders(b"monitor.trace_ \xff", "10.0.0.1", lambda _: "job").startswith(b"monitor")


def test_a_database_that_fails_loses_the_name_not_the_spans() -> None:
    def fail(_: str) -> str:
        raise StoreError("away")

    body = make_request({"service.name": "rl_insight_monitor"})
    assert name_senders(body, "10.0.0.1", fail) is body
