"""Any valid request can be normalised, and both encodings of it mean the same."""

import json
import math
from dataclasses import asdict
from typing import cast

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from longpole_server.errors import BadRequestError
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.otlp_json import build_request
from longpole_server.ingest.signals import SIGNALS, Signal
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_strategies import requests, to_otlp_json

RECEIVED_NS = otlp.at(100)
slow = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def normalize(signal: Signal, body: bytes) -> tuple[Records, Normalizer]:
    normalizer, records = Normalizer(), Records()
    normalizer.normalize(signal, body, RECEIVED_NS, records)
    return records, normalizer


def plain(value: object) -> object:
    """Records as values that compare equal when they are, NaN included."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: plain(each) for key, each in items}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in cast("list[object]", value)]
    return value


@pytest.mark.parametrize("signal", SIGNALS)
def test_any_valid_request_is_normalised_without_a_skip(signal: Signal) -> None:
    @slow
    @given(requests(signal))
    def check(message: Message) -> None:
        _, normalizer = normalize(signal, message.SerializeToString())

        assert normalizer.stats.num_skipped == 0

    check()


@pytest.mark.parametrize("signal", SIGNALS)
def test_json_and_protobuf_of_a_request_mean_the_same(signal: Signal) -> None:
    @slow
    @given(requests(signal))
    def check(message: Message) -> None:
        body = json.dumps(to_otlp_json(message)).encode()
        from_json, _ = normalize(signal, build_request(signal, body).SerializeToString())
        from_protobuf, _ = normalize(signal, message.SerializeToString())

        assert plain(asdict(from_json)) == plain(asdict(from_protobuf))

    check()


@slow
@given(st.lists(requests("traces"), max_size=3), st.data())
def test_a_sequence_of_requests_keeps_every_span(
    messages: list[Message], data: st.DataObject
) -> None:
    normalizer, records = Normalizer(), Records()
    num_spans = 0
    for index, message in enumerate(messages):
        of_resources = cast("ExportTraceServiceRequest", message).resource_spans
        num_spans += sum(len(scope.spans) for each in of_resources for scope in each.scope_spans)
        received_ns = RECEIVED_NS + index * data.draw(st.integers(0, 10**11))
        normalizer.normalize("traces", message.SerializeToString(), received_ns, records)

    assert len(records.raw_spans) == num_spans


def test_bytes_that_are_no_request_are_refused() -> None:
    with pytest.raises(BadRequestError, match="OTLP traces"):
        normalize("traces", b"\xff\xff\xff")
