import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.ingest.columns.texts import label, make_hex, make_texts, pick

_TEXT = "abcdéfghij"
_BUFFER = np.frombuffer(_TEXT.encode() + bytes(16), np.uint8)


def _places(starts: list[int], ends: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(starts, np.int64), np.array(ends, np.int64)


def test_texts_one_after_another_and_missing_ones() -> None:
    starts, ends = _places([0, 0, 2, 6, 0], [1, 0, 4, 9, 0])
    assert make_texts(_BUFFER, starts, ends).to_pylist() == ["a", "", "cd", "fgh", ""]


def test_texts_that_go_back_or_overlap() -> None:
    starts, ends = _places([6, 0, 0], [9, 4, 2])
    assert make_texts(_BUFFER, starts, ends).to_pylist() == ["fgh", "abcd", "ab"]


def test_no_texts_at_all() -> None:
    assert make_texts(_BUFFER, *_places([], [])).to_pylist() == []
    assert make_hex(_BUFFER, *_places([], [])).to_pylist() == []


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6))
def test_any_places_give_what_lies_there(pairs: list[tuple[int, int]]) -> None:
    places = [(min(pair), max(pair)) for pair in pairs]
    starts, ends = _places([start for start, _ in places], [end for _, end in places])
    expected = [_TEXT[start:end] for start, end in places]
    assert make_texts(_BUFFER, starts, ends).to_pylist() == expected
    assert make_hex(_BUFFER, starts, ends).to_pylist() == [text.encode().hex() for text in expected]


def test_pick_repeats_and_keeps_what_is_missing() -> None:
    assert pick(["a", None], np.array([1, 0, 0])).to_pylist() == [None, "a", "a"]


def test_a_label_is_kept_once_however_often_it_is_named() -> None:
    column = label(["a", "b", "a"], np.array([2, 1, 0, 2]))
    assert column.to_pylist() == ["a", "b", "a", "a"]
    # The database refuses an insert whose labels repeat.
    assert column.dictionary.to_pylist() == ["a", "b"]
