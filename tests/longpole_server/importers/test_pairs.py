"""Every spelling of a number in a step line is read; everything else is not a number."""

import math

import pytest

from longpole_server.importers.pairs import parse_pair, parse_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-0.000", 0.0),
        ("1e-06", 1e-06),
        ("9.87e-05", 9.87e-05),
        ("np.float64(0.123)", 0.123),
        ("np.int32(2)", 2.0),
        ("np.float64(-4.4e-06)", -4.4e-06),
        ("tensor(0.5)", 0.5),
        ("tensor(-2.5e-3, device='cuda:0', dtype=torch.bfloat16)", -0.0025),
        ("inf", math.inf),
        ("264.", 264.0),
    ],
)
def test_every_spelling_of_a_number_is_read(text: str, value: float) -> None:
    assert parse_value(text) == value


def test_nan_is_read_as_nan() -> None:
    nan = parse_value("np.float64(nan)")
    assert nan is not None
    assert math.isnan(nan)


@pytest.mark.parametrize("text", ["", "np.float64", "np.float64(0.1", "abc", "[1, 2]", "True"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert parse_value(text) is None


def test_a_pair_is_split_at_its_last_colon() -> None:
    assert parse_pair("val-core/hf:gsm8k/acc/mean@1:0.5") == ("val-core/hf:gsm8k/acc/mean@1", 0.5)
    assert parse_pair("a/b:tensor(0.5, device='cuda:0')") == ("a/b", 0.5)
    assert parse_pair(":0.5") is None
    assert parse_pair("0.5") is None
