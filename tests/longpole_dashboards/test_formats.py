import math
from datetime import datetime, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards import formats

NOON_NS = int(datetime(2026, 3, 12, 12, 0, 5, tzinfo=timezone.utc).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0 ms"),
        (0.00002, "< 0.1 ms"),
        (0.0042, "4.2 ms"),
        (0.85, "850 ms"),
        (0.9996, "1.0 s"),
        (42.34, "42.3 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (120, "2 min"),
        (3600 + 180, "1 h 3 min"),
        (90_000, "1 d 1 h"),
        (-3.0, "−3.0 s"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert formats.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (412.0, "412"),
        (0.034567, "0.0346"),
        (8190.0, "8.19 k"),
        (12_345.0, "12.3 k"),
        (999_999.0, "1000 k"),
        (1_310_000.0, "1.31 M"),
    ],
)
def test_counts(value: float | None, text: str) -> None:
    assert formats.format_count(value) == text


@given(st.floats(min_value=0, max_value=1e12))
def test_what_was_measured_is_never_shown_as_absent(value: float) -> None:
    for show in (formats.format_duration, formats.format_count, formats.format_bytes):
        assert show(value) != formats.ABSENT


@given(st.floats(min_value=1e-3, max_value=1e11), st.floats(min_value=1.2, max_value=10))
def test_a_longer_time_never_reads_the_same(seconds: float, factor: float) -> None:
    shorter, longer = formats.format_duration(seconds), formats.format_duration(seconds * factor)
    assert shorter != longer


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "–"), (0.0, "±0 %"), (0.031, "+3.1 %"), (-0.124, "−12 %"), (1.5, "+150 %")],
)
def test_changes(ratio: float | None, text: str) -> None:
    assert formats.format_change(ratio) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.5, "s", "500 ms"),
        (2.0**30, "bytes", "1.0 GiB"),
        (0.614, "ratio", "61.4 %"),
        (3.14159, "1", "3.14"),
        (8200.0, "tokens", "8.20 k tokens"),
        (None, "tokens", "–"),
    ],
)
def test_values_with_their_unit(value: float | None, unit: str, text: str) -> None:
    assert formats.format_value(value, unit) == text


def test_times_are_those_of_the_viewer() -> None:
    berlin = formats.Zone.from_browser({"name": "Europe/Berlin", "offset_min": 60})
    assert berlin.format_clock(NOON_NS) == "13:00:05"
    assert berlin.format_moment(NOON_NS) == "12 Mar, 13:00:05"


def test_an_unknown_zone_falls_back_to_the_offset() -> None:
    zone = formats.Zone.from_browser({"name": "Middle/Earth", "offset_min": -90})
    assert zone.format_clock(NOON_NS) == "10:30:05"
    assert zone.label == "UTC-1.5"


@pytest.mark.parametrize("reported", [None, {}, {"name": 3}, {"offset_min": "x"}])
def test_without_a_word_from_the_browser_times_are_utc(reported: dict[str, object] | None) -> None:
    assert formats.Zone.from_browser(reported).format_clock(NOON_NS) == "12:00:05"


@given(st.integers(1_700_000_000, 1_800_000_000), st.integers(0, 400_000))
def test_moments_in_columns_are_those_one_by_one(start_s: int, length_s: int) -> None:
    zone = formats.Zone.from_browser({"name": "Europe/Berlin"})
    moments_ns = np.array([[start_s, start_s + length_s]], dtype=np.int64) * formats.NS_PER_S
    found_ms = zone.local_ms(moments_ns)
    assert found_ms.shape == (1, 2)
    for ts_ns, found in zip(moments_ns[0].tolist(), found_ms[0].tolist(), strict=True):
        assert found == zone.local(ts_ns).replace(tzinfo=timezone.utc).timestamp() * 1000


def test_local_keeps_fractions_of_a_second() -> None:
    assert formats.Zone().local(NOON_NS + 250_000_000).microsecond == 250_000


def test_energy_in_the_unit_it_is_paid_in() -> None:
    shown = [
        formats.format_energy(joules) for joules in (None, 0.42, 1_500.0, 29_160.0, 4.7e6, 7.2e9)
    ]
    assert shown == ["–", "0.42 J", "1.5 kJ", "8.1 Wh", "1.31 kWh", "2 MWh"]
