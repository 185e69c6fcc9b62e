import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from longpole.values import to_iteration, to_number


class Tensor:
    """What a 0-d tensor looks like from outside."""

    def __init__(self, content: object) -> None:
        self.content = content

    def item(self) -> object:
        if isinstance(self.content, list):
            raise RuntimeError("a Tensor with 2 elements cannot be converted to Scalar")
        return self.content


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1),
        (1.5, 1.5),
        (True, 1),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.int64(3), 3),
        (np.bool_(True), 1),
        (np.array(2.0), 2.0),
        (Tensor(0.25), 0.25),
        (Tensor(2), 2),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        (math.inf, math.inf),
        (None, None),
        ("1", None),
        ([1], None),
        (np.array([1.0, 2.0]), None),
        (Tensor([1, 2]), None),
        (Tensor("text"), None),
        (1j, None),
        (object(), None),
    ],
)
def test_numbers(value: object, number: float | None) -> None:
    result = to_number(value)
    assert result == number
    assert result is None or type(result) in {int, float}


def test_nan_stays_nan() -> None:
    assert math.isnan(to_number(np.float32("nan")) or 0.0)


@pytest.mark.parametrize(
    ("value", "iteration"),
    [
        (7, 7),
        (np.int32(7), 7),
        (7.0, 7),
        (np.array(7), 7),
        (Tensor(7), 7),
        (7.5, None),
        (math.nan, None),
        ("7", None),
        (None, None),
    ],
)
def test_iterations(value: object, iteration: int | None) -> None:
    assert to_iteration(value) == iteration
