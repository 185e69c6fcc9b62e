from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards.components.sparkline import HEIGHT, WIDTH, sparkline

SVG = "{http://www.w3.org/2000/svg}"


def draw(values: list[float | None]) -> ET.Element:
    address = sparkline(values, "#6f9afd")
    return ET.fromstring(unquote(address.removeprefix("data:image/svg+xml,")))


@pytest.mark.parametrize("values", [[], [1.0], [None, 2.0], [None, None]])
def test_less_than_two_values_are_no_line(values: list[float | None]) -> None:
    assert sparkline(values, "#6f9afd") == ""


def test_unknown_values_break_the_line() -> None:
    lines = draw([1.0, 2.0, None, 3.0, 4.0]).findall(f"{SVG}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2, 2]


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=60))
def test_lines_stay_inside_their_box(values: list[float]) -> None:
    for line in draw([*values]).iter(f"{SVG}polyline"):
        for point in line.attrib["points"].split():
            x, y = (float(part) for part in point.split(","))
            assert 0 <= x <= WIDTH + 0.1
            assert 0 <= y <= HEIGHT


def test_a_colour_needs_no_request() -> None:
    assert "http:" not in sparkline([1, 2], "#6f9afd").replace("http%3A//www.w3.org/2000/svg", "")
