import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.ingest.columns.unions import measure_unions_s
from longpole_server.ingest.columns.wire import UnfitError
from longpole_server.ingest.normalize.trajectories import measure_union_s

_windows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 10**12), st.integers(0, 10**12)), max_size=12
)


@given(_windows)
def test_each_owner_has_the_union_of_its_windows(windows: list[tuple[int, int, int]]) -> None:
    owners, starts, ends = (
        (np.array(each, np.int64) for each in zip(*windows, strict=True))
        if windows
        else ([np.zeros(0, np.int64)] * 3)
    )
    measured = measure_unions_s(owners, starts, ends, 4).to_pylist()
    for owner in range(4):
        own = [(start, end) for each, start, end in windows if each == owner]
        assert measured[owner] == (measure_union_s(own) if own else None)


def test_times_too_far_apart_are_left_to_the_other_reader() -> None:
    far = np.array([0, (1 << 63) - 1])
    with pytest.raises(UnfitError):
        measure_unions_s(np.array([0, 1]), far, far, 2)
