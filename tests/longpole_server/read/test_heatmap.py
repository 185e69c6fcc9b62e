from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.errors import BadRequestError
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.records import GpuSample, Records
from longpole_server.read.heatmap import get_heatmaps, plan_bins
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS

SECONDS = 600
LANES = [
    RunGpu("heat", 1, "heat", f"HEAT-{index}", index, "trainer", BASE_NS, None, "pid")
    for index in range(2)
]


@pytest.fixture(scope="module", autouse=True)
def written(opened: OpenedStore) -> None:
    """Two GPUs at 1 Hz for ten minutes: one ramps up, one is silent in the second half."""
    samples = [
        GpuSample(
            "heat",
            f"HEAT-{index}",
            index,
            BASE_NS + second * SECOND_NS,
            utilization_ratio=second / 1000 if index == 0 else 1.0,
            temperature_celsius=None if index else 50.0,
        )
        for index in range(2)
        for second in range(SECONDS)
        if index == 0 or second < SECONDS // 2
    ]
    opened.writer.write(Records(gpu_samples=samples), "heat")


def read(
    opened: OpenedStore, bins: int, field: str = "utilization_ratio", seconds: int = SECONDS
) -> GpuHeatmap:
    end_ns = BASE_NS + seconds * SECOND_NS
    return opened.reader.get_gpu_heatmap(LANES, field, BASE_NS, end_ns, bins)


def expect_ramp(heatmap: GpuHeatmap) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The mean of the ramp in each bin, computed sample by sample."""
    seconds = np.arange(SECONDS)
    ts_ns = BASE_NS + seconds * SECOND_NS
    bins = (ts_ns - heatmap.start_ns) // heatmap.bin_ns
    return np.array([seconds[bins == each].mean() / 1000 for each in np.unique(bins)])


@pytest.mark.parametrize(
    ("bins", "bin_s"), [(600, 1), (60, 10), (31, 20), (20, 30), (7, 90), (4, 180), (2, 360)]
)
def test_bins_are_means_of_samples_or_rollups_alike(
    opened: OpenedStore, bins: int, bin_s: int
) -> None:
    heatmap = read(opened, bins)
    assert heatmap.bin_ns == bin_s * SECOND_NS
    assert heatmap.values.dtype == np.float32
    assert heatmap.values.shape[0] == 2
    assert heatmap.values.shape[1] <= bins
    np.testing.assert_allclose(heatmap.values[0], expect_ramp(heatmap), rtol=1e-5)


def test_where_nothing_was_measured_is_nan(opened: OpenedStore) -> None:
    values = read(opened, 600).values[1]
    assert np.all(values[:300] == 1.0)
    assert np.all(np.isnan(values[300:]))


@pytest.mark.parametrize("bins", [600, 10])
def test_a_field_without_rollups_is_read_from_samples(opened: OpenedStore, bins: int) -> None:
    values = read(opened, bins, "temperature_celsius").values
    assert np.all(values[0] == 50.0)
    assert np.all(np.isnan(values[1]))


@pytest.mark.parametrize("seconds", [SECONDS, 450, 3])
@pytest.mark.parametrize("bins", [600, 90, 60, 7, 2])
@pytest.mark.parametrize("field", ["utilization_ratio", "temperature_celsius"])
def test_what_is_added_up_here_or_in_the_database_is_the_same(
    opened: OpenedStore, field: str, bins: int, seconds: int
) -> None:
    end_ns = BASE_NS + seconds * SECOND_NS
    here, there = (
        get_heatmaps(opened.pool, LANES, (field,), BASE_NS, end_ns, bins, max_flat_rows)[field]
        for max_flat_rows in (1 << 40, 0)
    )
    assert (here.start_ns, here.bin_ns, here.lanes) == (there.start_ns, there.bin_ns, there.lanes)
    np.testing.assert_allclose(here.values, there.values, rtol=1e-6)


def test_lanes_keep_their_order_and_may_repeat_or_be_silent(opened: OpenedStore) -> None:
    silent = replace(LANES[0], gpu_uuid="HEAT-9")
    lanes = [LANES[1], silent, LANES[0], LANES[1]]
    heatmap = opened.reader.get_gpu_heatmap(
        lanes, "utilization_ratio", BASE_NS, BASE_NS + SECOND_NS, 10
    )
    assert heatmap.lanes == tuple(lanes)
    np.testing.assert_array_equal(heatmap.values, [[1.0], [np.nan], [0.0], [1.0]])


def test_no_lanes_and_no_time_are_empty(opened: OpenedStore) -> None:
    reader = opened.reader
    heatmap = reader.get_gpu_heatmap([], "utilization_ratio", BASE_NS, BASE_NS + SECOND_NS, 10)
    assert heatmap.values.shape == (0, 1)
    assert read(opened, 10, seconds=0).values.shape == (2, 0)
    assert read(opened, 10, seconds=-5).values.shape == (2, 0)


@pytest.mark.parametrize("field", ["", "host", "utilization_ratio; DROP TABLE gpu_samples"])
def test_an_unknown_field_is_refused(opened: OpenedStore, field: str) -> None:
    with pytest.raises(BadRequestError, match="no field"):
        read(opened, 10, field)


@given(
    start_ns=st.integers(0, 1 << 61),
    span_ns=st.integers(1, 400 * 86_400 * SECOND_NS),
    max_bins=st.integers(1, 5000),
    has_rollup=st.booleans(),
)
def test_a_plan_covers_the_range_within_its_bins(
    start_ns: int, span_ns: int, max_bins: int, has_rollup: bool
) -> None:
    end_ns = start_ns + span_ns
    bins = plan_bins(start_ns, end_ns, max_bins, has_rollup=has_rollup)
    unit_ns = (bins.rollup_s or 1) * SECOND_NS
    assert 0 <= start_ns - bins.start_ns < max(bins.rollup_s * SECOND_NS, 1)
    assert bins.end_ns >= end_ns
    assert bins.end_ns - bins.bin_ns < end_ns
    assert bins.num_bins <= max_bins
    assert bins.bin_ns % unit_ns == 0
    assert bins.bin_ns < span_ns / max_bins + 3 * unit_ns
    if bins.rollup_s:
        assert has_rollup
        assert bins.start_ns % unit_ns == 0
        assert bins.bin_ns >= 20 * SECOND_NS
    elif has_rollup:
        assert bins.bin_ns < 20 * SECOND_NS
