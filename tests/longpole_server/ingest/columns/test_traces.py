"""Whatever is sent, columns hold what the reader of single requests makes of it."""

from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.service.touched import find_touched
from longpole_server.store.activity import Activity
from support import otlp_builders as otlp
from support.otlp_columns import list_rows, read_columns, read_singly
from support.otlp_strategies import requests

_KEYS: tuple[str, ...] = (
    "rl.loop.iteration",
    "global_step",
    "rl.stage",
    "rl.trajectory.id",
    "rl.trajectory.generate_seconds",
    "rl.trajectory.preemptions",
    "rl.phase",
    "rl.reward.value",
    "rl.turn",
    "gen_ai.tool.name",
    "gen_ai.usage.output_tokens",
    "gen_ai.prompt",
    "service.instance.id",
    "other",
)
_NAMES = ("rl.trajectory", "rl.generate", "execute_tool python", "rl.loop", "rl.sample", "llm", "")
_values = (
    st.sampled_from(["", "7", "-3", "1.5", "val", "Train", "x" * 4097, "ü", "ask a@b.org"])
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats()
    | st.booleans()
    | st.binary(max_size=3)
    | st.lists(st.integers(0, 3), max_size=2)
)
_ids = st.sampled_from([b"\x01" * 8, b"\x02" * 8, b"\x03" * 8, b"\x04" * 8, b""])


@st.composite
def _spans(draw: st.DrawFn) -> Span:
    start = draw(st.integers(0, 100))
    span = otlp.span(
        draw(st.sampled_from(_NAMES)),
        start,
        start + draw(st.integers(-2, 50)),
        cast("Any", draw(st.dictionaries(st.sampled_from(_KEYS), _values, max_size=6))),
        trace=draw(st.sampled_from([b"\x01" * 16, b"\x02" * 16])),
        parent=draw(_ids),
    )
    span.flags = draw(st.sampled_from([0, 0x101]))
    if draw(st.booleans()):
        span.status.code = cast("Any", draw(st.sampled_from([0, 1, 2, 9])))
        span.status.message = draw(st.sampled_from(["", "failed", "no answer of a@b.org"]))
    if draw(st.integers(0, 4)) == 0:
        span.events.add(time_unix_nano=5, name="event", attributes=otlp.attributes({"a": 1}))
        span.events[0].attributes.extend(otlp.attributes({"exception.message": "a@b.org"}))
        span.links.add(trace_id=b"\x09", span_id=b"\x08", trace_state="s")
    return span


_senders = st.sampled_from(
    [
        otlp.process("run"),
        otlp.process("run", role="rollout", pid=7, service__instance__id="engine-0"),
        otlp.process(None, role=None, pid=None),
        otlp.resource(service__name="longpole-agent", host__name="node0"),
        otlp.resource(),
    ]
)
_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
_requests = st.lists(
    st.lists(st.tuples(_senders, st.lists(_spans(), max_size=6)), max_size=3), max_size=3
)


def _encode(batches: Any) -> list[tuple[bytes, int]]:
    return [(otlp.traces(*batch), otlp.at(200 + index)) for index, batch in enumerate(batches)]


def _same(encoded: list[tuple[bytes, int]], *, keep_text: bool = False) -> bool:
    """Compare; False when columns leave the requests to the other reader."""
    columns = read_columns("traces", encoded, keep_text=keep_text)
    if columns is None:
        return False
    single = read_singly("traces", encoded, keep_text=keep_text)
    assert list_rows(columns) == list_rows(single)
    assert len(columns) == len(single)
    assert find_touched(columns) == find_touched(single)
    activity = Activity(lambda: otlp.at(1000))
    assert activity.find_news(columns) == activity.find_news(single)
    return True


@settings(max_examples=40, deadline=None, suppress_health_check=_SLOW)
@given(_requests, st.booleans())
def test_columns_hold_what_single_requests_hold(batches: Any, keep_text: bool) -> None:
    for number, span in enumerate(
        span for batch in batches for _, spans in batch for span in spans
    ):
        span.span_id = bytes([number + 1]) * 8
    assert _same(_encode(batches), keep_text=keep_text)


@settings(max_examples=25, deadline=None, suppress_health_check=_SLOW)
@given(st.lists(requests("traces"), max_size=2))
def test_any_valid_request_is_read_alike_or_left_alone(messages: Any) -> None:
    _same([(message.SerializeToString(), otlp.at(9)) for message in messages])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damaged_bytes_are_left_alone_or_read_alike(data: st.DataObject) -> None:
    body = bytearray(otlp.traces((otlp.process(), [otlp.loop(1, 0, 5), otlp.span("x", 1, 2)])))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    read_columns("traces", [(bytes(body[: data.draw(st.integers(0, len(body)))]), otlp.at(9))])


def test_many_trajectories_with_their_parts() -> None:
    spans: list[Span] = []
    for number in range(40):
        trace, root = bytes([number + 1]) * 16, bytes([number + 1]) * 8
        values = {"rl.loop.iteration": 3, "rl.trajectory.id": f"t{number}", "rl.reward.value": 0.5}
        spans.append(otlp.span("rl.trajectory", 0, 9, values, trace=trace, id=root))
        spans += [
            otlp.span("rl.generate", at, at + 2, {"rl.turn": at}, trace=trace, parent=root)
            for at in (0, 1, 4)
        ]
    encoded = [(otlp.traces((otlp.process(), spans)), otlp.at(10))]
    assert _same(encoded)
    records = read_columns("traces", encoded)
    assert records is not None
    rows = list_rows(records)
    assert {row["generate_s"] for row in rows["trajectories"]} == {5.0}
    assert len(rows["trajectory_spans"]) == 120


def test_several_trajectories_of_one_trace() -> None:
    trace, first, second, middle = b"\x07" * 16, b"\x01" * 8, b"\x02" * 8, b"\x03" * 8
    spans = [
        otlp.span("rl.trajectory", 0, 9, {"rl.trajectory.id": "a"}, trace=trace, id=first),
        otlp.span("rl.trajectory", 0, 9, {"rl.trajectory.id": "b"}, trace=trace, id=second),
        otlp.span("turn", 0, 9, trace=trace, id=middle, parent=second),
        otlp.span("rl.generate", 1, 2, trace=trace, parent=middle),
        otlp.span("rl.generate", 1, 2, trace=trace, parent=first),
        otlp.span("rl.generate", 1, 2, trace=trace, parent=b"\x0a" * 8),
    ]
    assert _same([(otlp.traces((otlp.process(), spans)), otlp.at(10))])


@pytest.mark.parametrize(
    "values", [{"a": ["x", "y"]}, {"a": b"\x01"}, {"a": True}, {"a": "é" * 5000}]
)
def test_unusual_values_are_text_alike(values: Any) -> None:
    assert _same([(otlp.traces((otlp.process(), [otlp.span("x", 0, 1, values)])), otlp.at(2))])


def test_a_span_of_very_many_attributes_is_left_to_the_other_reader() -> None:
    values = {f"key{number}": number for number in range(300)}
    encoded = [(otlp.traces((otlp.process(), [otlp.span("x", 0, 1, values)])), otlp.at(2))]
    assert read_columns("traces", encoded) is None


def test_a_trajectory_that_comes_twice_is_left_to_the_other_reader() -> None:
    root = otlp.span("rl.trajectory", 0, 1)
    child = otlp.span("rl.generate", 0, 1, trace=root.trace_id, parent=root.span_id)
    encoded = [(otlp.traces((otlp.process(), [root, root, child])), otlp.at(2))]
    assert read_columns("traces", encoded) is None


def test_a_repeated_key_is_left_to_the_other_reader() -> None:
    span = otlp.span("x", 0, 1, {"a": 1})
    span.attributes.extend(otlp.attributes({"a": 2}))
    encoded = [(otlp.traces((otlp.process(), [span])), otlp.at(2))]
    assert read_columns("traces", encoded) is None
