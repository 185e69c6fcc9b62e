"""Dictionaries as Python and JSON print them are read without evaluating them."""

import json
import math
import pprint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.importers.literals import read_dictionary

NAMES = st.text("abcdefgXYZ0123456789_@.-() äß", min_size=1, max_size=20)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(FINITE, st.integers(-(10**9), 10**9))
OTHERS = st.one_of(
    st.none(), st.booleans(), st.text(max_size=12), st.lists(st.integers(), max_size=3)
)


@given(values=st.dictionaries(NAMES, VALUES, max_size=12))
def test_what_python_prints_is_read(values: dict[str, float]) -> None:
    found = read_dictionary(repr(values) + " and more")
    assert found.numbers == values
    assert found.end == len(repr(values))


@given(values=st.dictionaries(NAMES, VALUES, max_size=12))
def test_what_json_prints_is_read(values: dict[str, float]) -> None:
    text = json.dumps(values, ensure_ascii=False)
    assert read_dictionary(text).numbers == values


@given(values=st.dictionaries(NAMES, FINITE, max_size=12))
def test_what_the_pretty_printer_prints_is_read_joined(values: dict[str, float]) -> None:
    text = "".join(pprint.pformat({name: str(v) for name, v in values.items()}).splitlines())
    assert read_dictionary(text, text_numbers=True).numbers == values


@given(values=st.dictionaries(NAMES, st.one_of(VALUES, OTHERS), max_size=8), data=st.data())
def test_one_that_ends_in_the_middle_says_nothing_false(
    values: dict[str, object], data: st.DataObject
) -> None:
    text = repr(values)
    cut = data.draw(st.integers(1, len(text)))
    found = read_dictionary(text[:cut])
    assert found.is_valid
    assert (found.end is not None) == (cut == len(text))
    for name, value in found.numbers.items():
        assert values[name] == value


@given(text=st.text(max_size=60))
def test_any_text_is_borne(text: str) -> None:
    read_dictionary("{" + text)
    read_dictionary(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("{'a': np.float64(0.5), 'b': np.int32(2)}", {"a": 0.5, "b": 2.0}),
        ("{'a': tensor(0.5, device='cuda:0'), 'b': tensor([1, 2])}", {"a": 0.5}),
        ("{'a': {'b': {'c': 1}}}", {"a/b/c": 1.0}),
        ("{'text': '}, \\'a\\': 9', 'a': 1e-06}", {"a": 1e-06}),
        ("{'long': 'one '\n 'two', 'a': 1}", {"a": 1.0}),
        ("{1: 2, 'flag': True, 'none': None, 'list': [{'x': 3}]}", {"1": 2.0}),
        ('{"a": null, "b": true, "c": 1.5}', {"c": 1.5}),
        ("{'a': 1_000.5, 'b': np.float64(5_), 'c': tensor(1__0)}", {"a": 1000.5}),
    ],
)
def test_other_ways_to_print(text: str, numbers: dict[str, float]) -> None:
    assert read_dictionary(text).numbers == numbers


def test_a_damaged_number_is_none() -> None:
    found = read_dictionary("{'a': 1.5, 'b': 5_, 'c': 2.5}")
    assert (found.numbers, found.is_valid) == ({"a": 1.5}, False)


def test_texts_are_numbers_only_where_a_format_prints_them_so() -> None:
    assert read_dictionary("{'a': '0.5'}").numbers == {}
    assert read_dictionary("{'a': '0.5'}", text_numbers=True).numbers == {"a": 0.5}


def test_what_is_not_finite_is_read_as_it_is() -> None:
    numbers = read_dictionary("{'a': nan, 'b': -inf, 'c': Infinity}").numbers
    assert math.isnan(numbers["a"])
    assert (numbers["b"], numbers["c"]) == (-math.inf, math.inf)


@pytest.mark.parametrize("text", ["{1}", "{'a' 1}", "{'a': 1 2}", "{'a': @}", "x", "{'a': 1}}"])
def test_what_is_no_dictionary_is_told(text: str) -> None:
    found = read_dictionary(text)
    assert not found.is_valid or found.end == len(text) - 1
