import math
from decimal import Decimal

import pyarrow as pa
import pytest

from longpole_server.store.columns import (
    FLOAT,
    INTEGER,
    RATIO,
    TENTHS,
    TEXT,
    TEXT_MAP,
    TEXTS,
    TIME,
    WHOLE,
    make_array,
)

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def test_integers_beyond_the_column_become_the_nearest() -> None:
    array = make_array([1 << 70, None, -(1 << 70), 3], INTEGER)
    assert array.to_pylist() == [INT64_MAX, None, INT64_MIN, 3]


def test_times_beyond_the_column_become_the_nearest() -> None:
    array = make_array([1 << 70, None, -(1 << 70), 3], TIME)
    assert array.cast(INTEGER).to_pylist() == [INT64_MAX, None, INT64_MIN, 3]


@pytest.mark.parametrize("kind", [INTEGER, TIME])
def test_lists_are_bent_like_single_values(kind: pa.DataType) -> None:
    values = [[1 << 70, None, -(1 << 70)], (1 << 63, 3), [], [math.nan, 2.5]]
    bent = [[INT64_MAX, None, INT64_MIN], [INT64_MAX, 3], [], [None, 2]]
    assert make_array(values, pa.list_(kind)).equals(pa.array(bent, type=pa.list_(kind)))


@pytest.mark.parametrize("kind", [INTEGER, TIME])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_none_become_absent_integers(value: float, kind: pa.DataType) -> None:
    assert make_array([value, 2.5], kind).cast(INTEGER).to_pylist() == [None, 2]


def test_text_that_is_not_unicode_is_mended() -> None:
    assert make_array(["a\ud800", None, "ü"], TEXT).to_pylist() == ["a?", None, "ü"]
    assert make_array([("a\ud800",), ()], TEXTS).to_pylist() == [["a?"], []]
    assert make_array([{"k\ud800": "v\ud800"}, {}], TEXT_MAP).to_pylist() == [[("k?", "v?")], []]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (0.57, Decimal("0.5700")),
        (0.12345678, Decimal("0.1235")),
        (-1.0, Decimal("-1.0000")),
        (3, Decimal("3.0000")),
        (1e6, None),
        (math.nan, None),
        (-math.inf, None),
        (None, None),
    ],
)
def test_fractions_are_as_fine_as_instruments_read(
    value: float | None, stored: Decimal | None
) -> None:
    assert make_array([value], RATIO).to_pylist() == [stored]


def test_physical_values_keep_their_digits() -> None:
    assert make_array([699.9], TENTHS).to_pylist() == [Decimal("699.9")]
    assert make_array([1.98e9, 1e18], WHOLE).to_pylist() == [Decimal(1_980_000_000), None]


def test_floats_keep_every_value() -> None:
    values = [math.inf, -math.inf, 0.1, None]
    assert make_array(values, FLOAT).to_pylist() == values
    (value,) = make_array([math.nan], FLOAT).to_pylist()
    assert str(value) == "nan"
