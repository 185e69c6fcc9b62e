from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards.figures.thinning import keep_extremes, keep_greatest

VALUES = st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=300)


@given(VALUES, st.integers(4, 60))
def test_extremes_and_gaps_stay(values: list[float | None], max_points: int) -> None:
    places = keep_extremes(values, max_points)
    assert places == sorted(set(places))
    kept = [values[at] for at in places]
    known = [value for value in values if value is not None]
    assert {value for value in kept if value is not None} <= set(known)
    if known:
        shown = [value for value in kept if value is not None]
        assert (min(shown), max(shown)) == (min(known), max(known))
    assert (None in kept) == (None in values)
    assert len(places) <= max(len(values) if len(values) <= max_points else 0, 1.5 * max_points + 3)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300), st.integers(1, 60))
def test_the_slowest_step_stays(values: list[float], max_bars: int) -> None:
    places, size = keep_greatest(values, max_bars)
    assert len(places) <= max_bars
    assert max(values[at] for at in places) == max(values)
    assert size == 1 or len(values) > max_bars
