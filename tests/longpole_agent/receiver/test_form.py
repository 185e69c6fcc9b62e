import gzip

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_agent.batch import JSON, PROTOBUF, SIGNALS, Signal
from longpole_agent.errors import MalformedError
from longpole_agent.receiver.form import check_form


def make_request() -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.name, span.trace_id = "rl.stage", b"\1" * 16
    return request.SerializeToString()


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_request_passes(encoding: str) -> None:
    body = make_request()
    check_form("traces", gzip.compress(body) if encoding else body, PROTOBUF, encoding)
    check_form("traces", b'{"resourceSpans": []}', f"{JSON}; charset=utf-8", "")


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"\xff\xff not protobuf", PROTOBUF),
        (make_request()[:-3], PROTOBUF),
        (b"{", JSON),
        (b"[]", JSON),
        (b"\xff", JSON),
        (b"[" * 200_000, JSON),
    ],
)
def test_what_is_no_request_is_refused(signal: Signal, body: bytes, content_type: str) -> None:
    with pytest.raises(MalformedError, match="the body is no"):
        check_form(signal, body, content_type, "")
