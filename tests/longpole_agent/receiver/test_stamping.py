import gzip

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from longpole_agent.receiver.stamping import Peer, Stamper, read_grpc_peer

PROTOBUF = "application/x-protobuf"
PEER = ("127.0.0.1", 5000)


class Peers:
    def __init__(self, job: str = "ray/s/01") -> None:
        self.job = job

    def find_sender(self, address: str, port: int) -> str:
        assert (address, port) == PEER
        return self.job

    def find_listener(self, port: int) -> str:
        return ""


class Pages:
    def __init__(self, lone_job: str = "") -> None:
        self.lone_job = lone_job
        self.visited: list[str] = []

    def find_lone_job(self) -> str:
        return self.lone_job

    def visit_trainer(self, job: str) -> None:
        self.visited.append(job)


def make(mark: str = "monitor.trace_segment", **resource: str) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.extend(
        _text(key.replace("__", "."), value) for key, value in resource.items()
    )
    spans.scope_spans.add().spans.add(name="actor_update").attributes.append(_text(mark, "x"))
    return request.SerializeToString()


def _text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def resource_of(body: bytes) -> dict[str, str]:
    (spans,) = ExportTraceServiceRequest.FromString(body).resource_spans
    return {pair.key: pair.value.string_value for pair in spans.resource.attributes}


def test_a_nameless_sender_gets_this_node_and_its_job() -> None:
    pages = Pages()
    stamp = Stamper(Peers(), "node-1", pages)
    body, encoding = stamp("traces", make(service__name="x"), PROTOBUF, "", PEER)
    assert encoding == ""
    assert resource_of(body) == {
        "service.name": "x",
        "host.name": "node-1",
        "longpole.job": "ray/s/01",
    }
    # Its trainer may be about to end: the page is read before the client hears back.
    assert pages.visited == ["ray/s/01"]


def test_a_compressed_request_is_sent_on_plain() -> None:
    stamp = Stamper(Peers(), "node-1", Pages())
    body, encoding = stamp("traces", gzip.compress(make()), PROTOBUF, "gzip", PEER)
    assert encoding == ""
    assert resource_of(body)["host.name"] == "node-1"


@pytest.mark.parametrize("peer", [PEER, None])
def test_without_a_process_the_only_trainer_of_the_node_is_meant(peer: Peer) -> None:
    stamp = Stamper(Peers(""), "node-1", Pages("page/node-1/10.0.0.7:9092/5"))
    body, _ = stamp("traces", make(), PROTOBUF, "", peer)
    assert resource_of(body)["longpole.job"] == "page/node-1/10.0.0.7:9092/5"


def test_what_cannot_be_told_is_not_claimed() -> None:
    stamp = Stamper(Peers(""), "node-1", Pages())
    body, _ = stamp("traces", make(longpole__job="ray/other/01"), PROTOBUF, "", PEER)
    assert resource_of(body) == {"host.name": "node-1"}


def test_engines_are_stamped_and_no_page_is_visited() -> None:
    pages = Pages()
    body, _ = Stamper(Peers(), "node-1", pages)(
        "traces", make("gen_ai.latency.e2e"), PROTOBUF, "", PEER
    )
    assert resource_of(body)["longpole.job"] == "ray/s/01"
    assert pages.visited == []


@pytest.mark.parametrize(
    ("signal", "body", "content_type", "encoding"),
    [
        ("traces", make(host__name="node-9"), PROTOBUF, ""),
        ("traces", make("something.else"), PROTOBUF, ""),
        ("traces", b"\xff monitor.trace_", PROTOBUF, ""),
        ("traces", b"no gzip", PROTOBUF, "gzip"),
        ("traces", b"{}", "application/json", ""),
        ("metrics", make(), PROTOBUF, ""),
    ],
)
def test_everything_else_stays_as_it_came(
    signal: str, body: bytes, content_type: str, encoding: str
) -> None:
    stamp = Stamper(Peers(), "node-1", Pages())
    assert stamp(signal, body, content_type, encoding, PEER) == (body, encoding)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:127.0.0.1:5000", ("127.0.0.1", 5000)),
        ("ipv6:%5B::1%5D:5000", ("::1", 5000)),
        ("ipv6:[::1]:5000", ("::1", 5000)),
        ("unix:/tmp/x", None),
        ("", None),
    ],
)
def test_peers_of_grpc(text: str, peer: Peer) -> None:
    assert read_grpc_peer(text) == peer
