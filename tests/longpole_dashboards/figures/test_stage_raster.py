from hypothesis import example, given
from hypothesis import strategies as st

from longpole_dashboards.figures.bands import Band
from longpole_dashboards.figures.stage_raster import (
    NUM_COLUMNS,
    needs_raster,
    rasterise,
    rasterise_row,
)
from longpole_server.model.step import StageLane

SPAN_NS = (0, 1_000_000)


def lane(stage: str, start_ns: int, end_ns: int) -> StageLane:
    return StageLane(stage, "trainer", "node", 1, start_ns, end_ns)


@given(st.lists(st.tuples(st.integers(0, 999_000), st.integers(0, 1_000)), min_size=1))
@example([(2500, 0)])
def test_no_window_is_too_short_to_be_seen(windows: list[tuple[int, int]]) -> None:
    lanes = [lane("gen", start, start + length) for start, length in windows]
    codes = rasterise(lanes, [0] * len(lanes), ["gen"], SPAN_NS)
    for each in lanes:
        assert codes[0, each.start_ns * NUM_COLUMNS // 1_000_000] == 1


def test_a_short_window_lies_over_a_long_one() -> None:
    lanes = [lane("ref", 500_000, 500_001), lane("gen", 0, 1_000_000)]
    codes = rasterise(lanes, [0, 0], ["gen", "ref"], SPAN_NS)
    assert codes[0, NUM_COLUMNS // 2] == 2
    assert codes[0, 0] == 1


@given(st.lists(st.tuples(st.integers(1, 40_000), st.sampled_from(["gen", "ref"])), min_size=1))
def test_a_column_of_one_row_is_the_stage_that_takes_most_of_it(
    windows: list[tuple[int, str]],
) -> None:
    bands, clock = list[Band](), 0
    for length, stage in windows:
        bands.append(Band(stage, 1, clock, clock + length))
        clock += length + 7
    codes = rasterise_row(bands, ["gen", "ref"], SPAN_NS)
    width = SPAN_NS[1] / NUM_COLUMNS
    for band in bands:
        inside = range(int(band.start_ns / width) + 1, min(NUM_COLUMNS, int(band.end_ns / width)))
        assert {int(codes[at]) for at in inside} <= {1 if band.stage == "gen" else 2}
    if clock < SPAN_NS[1] - width:
        assert codes[-1] == 0


def test_few_lanes_stay_bars() -> None:
    few = [lane("gen", 0, 1)] * 100
    assert not needs_raster(few, 10)
    assert needs_raster(few, 1_000)
    assert needs_raster(few * 100, 10)
