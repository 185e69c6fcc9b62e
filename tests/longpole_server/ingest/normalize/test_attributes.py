import base64
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList

from longpole_server.ingest.normalize.attributes import (
    Value,
    format_attributes,
    format_value,
    get_float,
    get_int,
    get_text,
    get_texts,
    read_attributes,
)
from longpole_server.ingest.normalize.free_text import MAX_TEXT_CHARS, FreeText
from support import otlp_builders as otlp


def test_values_come_back_as_python() -> None:
    nested = AnyValue(kvlist_value=KeyValueList(values=otlp.attributes({"a": [1, True]})))
    pairs = [
        *otlp.attributes({"s": "x", "i": -3, "d": 0.5, "b": False, "y": b"\x00"}),
        KeyValue(key="m", value=nested),
        KeyValue(key="none"),
    ]

    assert read_attributes(pairs) == {
        "s": "x",
        "i": -3,
        "d": 0.5,
        "b": False,
        "y": b"\x00",
        "m": {"a": [1, True]},
        "none": None,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "true"),
        (3, "3"),
        (0.5, "0.5"),
        (None, ""),
        (b"\x00\xff", base64.b64encode(b"\x00\xff").decode()),
        (["a", 1, False], '["a",1,false]'),
        ({"k": [b"\x01"]}, '{"k":["AQ=="]}'),
        ({"ü": 1}, '{"ü":1}'),
    ],
)
def test_text_is_what_the_collector_writes(value: Value, text: str) -> None:
    assert format_value(value) == text


def test_what_people_wrote_is_dropped_unless_asked_for() -> None:
    values: dict[str, Value] = {
        "gen_ai.prompt": "secret",
        "gen_ai.prompt.0.content": "secret",
        "llm.input_messages.0.message": "secret",
        "messages": ["secret"],
        "mlflow.spanInputs": "secret",
        "gen_ai.usage.input_tokens": 3,
    }

    assert format_attributes(values, FreeText()) == {"gen_ai.usage.input_tokens": "3"}
    assert set(format_attributes(values, FreeText(keep=True))) == set(values)


def test_long_text_is_cut_and_marked() -> None:
    values: dict[str, Value] = {"log": "x" * (MAX_TEXT_CHARS + 1), "ok": "x" * MAX_TEXT_CHARS}

    texts = format_attributes(values, FreeText())

    assert texts["log"] == "x" * MAX_TEXT_CHARS + "…"
    assert texts["ok"] == values["ok"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        ("7", 7),
        ("-7", -7),
        (7.0, 7),
        (7.5, None),
        (True, None),
        ("seven", None),
        ("9" * 30, None),
        (math.nan, None),
        (1e300, None),
        ("٣", None),
        (None, None),
    ],
)
def test_whole_numbers_are_read_however_they_were_sent(value: Value, expected: int | None) -> None:
    assert get_int({"k": value}, "k") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(7, 7.0), ("0.5", 0.5), (math.inf, None), ("nan", None), ("x", None), (False, None)],
)
def test_numbers_are_finite_or_absent(value: Value, expected: float | None) -> None:
    assert get_float({"k": value}, "k") == expected


def test_text_is_never_empty() -> None:
    assert get_text({"k": ""}, "k") is None
    assert get_text({"k": 7}, "k") == "7"
    assert get_text({}, "k") is None


def test_lists_of_text_may_come_as_one_text() -> None:
    assert get_texts({"k": ["GPU-1", 5, "GPU-2"]}, "k") == ("GPU-1", "GPU-2")
    assert get_texts({"k": "GPU-1, GPU-2,"}, "k") == ("GPU-1", "GPU-2")
    assert get_texts({"k": 5}, "k") == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text() | st.binary(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


@given(json_values)
def test_any_value_has_a_text(value: Value) -> None:
    text = format_value(value)

    assert isinstance(text, str)
    if isinstance(value, (list, dict)):
        json.loads(text)
