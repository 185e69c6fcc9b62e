"""Values, resources and scopes as OTLP protobuf messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from longpole._version import __version__
from longpole.values import AttributeValue

SCOPE_NAME = "longpole"
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Encoded:
    """An export request. Counts are of records; `num_skipped` ones could not be encoded."""

    body: bytes
    num_records: int
    num_skipped: int


def encode_value(value: AttributeValue) -> AnyValue:
    """Encode one value; whole numbers beyond 64 bits become doubles."""
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        if MIN_INT64 <= value <= MAX_INT64:
            return AnyValue(int_value=value)
        return AnyValue(double_value=float(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=v) for v in value]))


def encode_attributes(attributes: Mapping[str, AttributeValue | None]) -> Sequence[KeyValue]:
    """Encode attributes; None is absent."""
    return [
        KeyValue(key=key, value=encode_value(value))
        for key, value in attributes.items()
        if value is not None
    ]


def encode_resource(resource: Mapping[str, AttributeValue]) -> Resource:
    """Encode the resource of this process."""
    return Resource(attributes=encode_attributes(resource))


def build_scope() -> InstrumentationScope:
    """Return the instrumentation scope under which the SDK sends."""
    return InstrumentationScope(name=SCOPE_NAME, version=__version__)
