import json
from pathlib import Path
from typing import cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.errors import BadRequestError
from longpole_server.ingest.otlp_json import build_request
from longpole_server.ingest.signals import SIGNALS, Signal

PAYLOADS = Path(__file__).parents[2] / "contract" / "otlp" / "payloads"


def span_request(**span: object) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def read_span(**span: object) -> Span:
    message = build_request("traces", span_request(**span))
    request = cast("ExportTraceServiceRequest", message)
    return request.resource_spans[0].scope_spans[0].spans[0]


def read_value(value: object) -> AnyValue:
    return read_span(attributes=[{"key": "k", "value": value}]).attributes[0].value


@pytest.mark.parametrize("signal", SIGNALS)
def test_payloads_in_the_shape_of_the_specification(signal: Signal) -> None:
    request = build_request(signal, (PAYLOADS / f"{signal}.json").read_bytes())

    assert request.ByteSize() > 100


def test_ids_are_hexadecimal_in_either_case() -> None:
    span = read_span(
        traceId="5B8EFFF798038103D269B633813FC60C",
        spanId="eee19b7ec3c1b174",
        parentSpanId="EEE19B7EC3C1B173",
    )

    assert span.trace_id.hex() == "5b8efff798038103d269b633813fc60c"
    assert span.span_id.hex() == "eee19b7ec3c1b174"
    assert span.parent_span_id.hex() == "eee19b7ec3c1b173"


def test_64_bit_integers_are_numbers_or_text() -> None:
    assert read_span(startTimeUnixNano="18446744073709551615").start_time_unix_nano == 2**64 - 1
    assert read_span(startTimeUnixNano=5).start_time_unix_nano == 5
    assert read_value({"intValue": "-9223372036854775808"}).int_value == -(2**63)
    assert read_value({"intValue": 1e3}).int_value == 1000


def test_enums_are_integers() -> None:
    assert read_span(kind=2).kind == 2
    with pytest.raises(BadRequestError, match="kind: 'SPAN_KIND_SERVER' is not an integer"):
        read_span(kind="SPAN_KIND_SERVER")


def test_other_keys_are_ignored() -> None:
    span = read_span(name="a", trace_id="00", unknown={"x": [1]}, Name="b", spanId=None)

    assert (span.name, span.trace_id, span.span_id) == ("a", b"", b"")


def test_values_of_every_type() -> None:
    assert read_value({"stringValue": "ü"}).string_value == "ü"
    assert read_value({"boolValue": True}).bool_value is True
    assert read_value({"doubleValue": 1}).double_value == 1.0
    assert read_value({"doubleValue": "-Infinity"}).double_value == float("-inf")
    assert read_value({"doubleValue": "0.5"}).double_value == 0.5
    assert read_value({"bytesValue": "_-8"}).bytes_value == b"\xff\xef"
    assert read_value({"arrayValue": {}}).WhichOneof("value") == "array_value"
    assert read_value({"intValue": "0"}).WhichOneof("value") == "int_value"
    kvlist = {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": 1}}]}}
    assert read_value(kvlist).kvlist_value.values[0].value.int_value == 1


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be an object"),
        (b'{"resourceSpans": {}}', "resourceSpans: must be an array"),
        (b'{"resourceSpans": [1]}', "resourceSpans: ResourceSpans must be an object"),
        (span_request(name=5), "name: 5 is not a string"),
        (span_request(traceId="xyz"), "traceId: 'xyz' is not hexadecimal"),
        (span_request(traceId=5), "is not hexadecimal"),
        (span_request(startTimeUnixNano=-1), "startTimeUnixNano: -1 is not an integer"),
        (span_request(startTimeUnixNano="1e3"), "is not an integer"),
        (span_request(startTimeUnixNano=True), "is not an integer"),
        (span_request(startTimeUnixNano=1.5), "is not an integer"),
        (span_request(kind=2**40), "is not an integer"),
        (span_request(attributes=[{"value": {"boolValue": "true"}}]), "is not true or false"),
        (span_request(attributes=[{"value": {"doubleValue": "x"}}]), "is not a number"),
        (span_request(attributes=[{"value": {"doubleValue": "inf"}}]), "is not a number"),
        (span_request(attributes=[{"value": {"bytesValue": "?"}}]), "is not base64"),
    ],
)
def test_what_does_not_fit_is_named(body: bytes, place: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        build_request("traces", body)

    assert place in caught.value.message


def test_deep_nesting_is_refused() -> None:
    value: dict[str, object] = {"intValue": 1}
    for _ in range(120):
        value = {"arrayValue": {"values": [value]}}

    with pytest.raises(BadRequestError, match="nested deeper"):
        read_value(value)


def test_a_long_wrong_value_is_not_repeated_in_full() -> None:
    with pytest.raises(BadRequestError) as caught:
        read_span(traceId="z" * 1000)

    assert len(caught.value.message) < 200
