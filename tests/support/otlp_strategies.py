"""Random valid OTLP requests, made of names that mean something and of anything else."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from longpole.conventions import attributes, gpus, stages
from longpole_server.ingest.signals import REQUEST_TYPES, Signal
from support.otlp_builders import T0_NS

_ID_KEYS = frozenset({"traceId", "spanId", "parentSpanId"})
_MAX_ITEMS = 2
_MAX_DEPTH = 9

_CONSTANTS = [value for value in vars(attributes).values() if isinstance(value, str)]
NAMES = sorted(
    {
        *(name for name in _CONSTANTS if "." in name),
        *(metric.metric for metric in gpus.GPU_METRICS),
        *stages.STAGE_ALIASES,
        "system.network.io",
        "system.cpu.utilization",
        "process.gpu.memory.usage",
        "vllm:num_requests_running",
        "sglang_token_usage",
        "pipeline_step",
        "global_step",
        "hw.id",
        "gpu.index",
        "controller",
        "rollout",
        "longpole-agent",
    }
)
_texts = st.sampled_from(NAMES) | st.text(max_size=12)
_times = st.integers(T0_NS, T0_NS + 10**12) | st.sampled_from([0, 1, (1 << 64) - 1, 1 << 63])
_ids = st.sampled_from([b"", b"\x01" * 8, b"\x02" * 8, b"\x03" * 16]) | st.binary(max_size=17)

_SCALARS: Mapping[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_STRING: _texts,
    FieldDescriptor.TYPE_BYTES: _ids,
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: st.integers(0, (1 << 32) - 1),
    FieldDescriptor.TYPE_INT64: st.integers(-5, 5) | st.integers(-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SFIXED64: st.integers(-5, 5) | st.integers(-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT64: st.integers(0, (1 << 64) - 1),
    FieldDescriptor.TYPE_FIXED64: _times,
    FieldDescriptor.TYPE_ENUM: st.integers(0, 6),
}


@st.composite
def requests(draw: st.DrawFn, signal: Signal) -> Message:
    """An export request of a signal."""
    message = REQUEST_TYPES[signal]()
    _fill(draw, message, 0)
    return message


def to_otlp_json(message: Message) -> object:
    """The request as OTLP/JSON: hexadecimal ids, enums as integers."""
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    return _with_hex_ids(document)


def _fill(draw: st.DrawFn, message: Message, depth: int) -> None:
    groups: dict[str, list[Any]] = {}
    for each in message.DESCRIPTOR.fields:
        one_of = each.containing_oneof
        groups.setdefault(each.name if one_of is None else one_of.name, []).append(each)
    for fields in groups.values():
        field = fields[0] if len(fields) == 1 else draw(st.sampled_from(fields))
        is_message = field.type == FieldDescriptor.TYPE_MESSAGE
        if depth >= _MAX_DEPTH and is_message:
            continue
        if hasattr(getattr(message, field.name), "extend"):
            _fill_list(draw, message, field, depth)
        elif is_message:
            child = getattr(message, field.name)
            child.SetInParent()
            _fill(draw, child, depth + 1)
        elif len(fields) > 1 or draw(st.booleans()):
            setattr(message, field.name, draw(_SCALARS[field.type]))


def _fill_list(draw: st.DrawFn, message: Message, field: Any, depth: int) -> None:
    target = getattr(message, field.name)
    for _ in range(draw(st.integers(0, _MAX_ITEMS))):
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            _fill(draw, target.add(), depth + 1)
        else:
            target.append(draw(_SCALARS[field.type]))


def _with_hex_ids(node: object) -> object:
    if isinstance(node, Mapping):
        return {
            key: base64.b64decode(cast("str", value)).hex()
            if key in _ID_KEYS
            else _with_hex_ids(value)
            for key, value in cast("Mapping[str, object]", node).items()
        }
    if isinstance(node, list):
        return [_with_hex_ids(element) for element in cast("Sequence[object]", node)]
    return node
