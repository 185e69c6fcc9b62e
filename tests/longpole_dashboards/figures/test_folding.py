import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from longpole_dashboards.figures.folding import Extreme, fold_rows


def find_extreme(column: NDArray[np.float32], keep: Extreme) -> float | None:
    known = [value for value in column.tolist() if value == value]
    return (min if keep == "least" else max)(known, default=None)


@given(
    rows=st.integers(1, 40),
    max_rows=st.integers(1, 40),
    seed=st.integers(0, 2**16),
    missing=st.floats(0, 1),
)
def test_no_extreme_disappears(rows: int, max_rows: int, seed: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    values = rng.uniform(0, 100, (rows, 7)).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    extremes: tuple[Extreme, Extreme] = ("least", "most")
    for keep in extremes:
        folded, size = fold_rows(values, max_rows, keep)
        assert len(folded) == -(-rows // size) <= max_rows
        for column in range(values.shape[1]):
            assert find_extreme(folded[:, column], keep) == find_extreme(values[:, column], keep)


def test_a_row_says_nothing_only_where_none_of_its_rows_does() -> None:
    values = np.array([[np.nan, 1], [np.nan, np.nan], [3, np.nan]], dtype=np.float32)
    folded, size = fold_rows(values, 2, "least")
    assert size == 2
    np.testing.assert_array_equal(folded, np.array([[np.nan, 1], [3, np.nan]], dtype=np.float32))
