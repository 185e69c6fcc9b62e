import base64
from datetime import datetime
from enum import Enum
from typing import Any

import numpy as np
import pytest

from longpole_dashboards.figures.figure import Figure, scatter_trace


def test_numbers_reach_the_browser_as_they_lie_in_memory() -> None:
    figure = Figure(scatter_trace(x=np.array([1, 2], np.int32), z=np.ones((2, 3), np.float32)))
    (trace,) = figure.to_plotly_json()["data"]
    assert trace["x"] == {"dtype": "i4", "bdata": base64.b64encode(b"\1\0\0\0\2\0\0\0").decode()}
    assert trace["z"]["shape"] == "2, 3"


@pytest.mark.parametrize(
    "values", [np.array([1, 2], np.int64), np.array(["a", None], object), np.array([], np.int8)]
)
def test_other_arrays_become_lists(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    (trace,) = Figure(scatter_trace(text=values)).to_plotly_json()["data"]
    assert trace["text"] == values.tolist()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>gen</b>  5 s<br>x<extra></extra>", "<b>gen</b>  5 s<br>x<extra></extra>"),
        ("<span style='color:#abc'>x</span>", "<span style='color:#abc'>x</span>"),
        ("a < b", "a &lt; b"),
        ("<a href='https://evil.example'>x</a>", "&lt;a href='https://evil.example'>x&lt;/a>"),
        ("<b onclick=x>", "&lt;b onclick=x>"),
        ("<span style='color:red;font-size:60px'>x", "&lt;span style='color:red;font-size:60px'>x"),
        ("<img src=x onerror=y>", "&lt;img src=x onerror=y>"),
    ],
)
def test_what_somebody_named_is_no_markup(text: str, shown: str) -> None:
    figure = Figure(scatter_trace(text=[text], name=text, y=np.array([text], object)))
    figure.add_annotation(text=text)
    plain = figure.to_plotly_json()
    (trace,) = plain["data"]
    assert trace["text"] == trace["y"] == [shown]
    assert trace["name"] == plain["layout"]["annotations"][0]["text"] == shown


def test_what_is_none_is_left_out_but_gaps_in_a_line_stay() -> None:
    figure = Figure(scatter_trace(y=[1.0, None], width=None))
    figure.update_layout(xaxis={"matches": None, "range": [datetime(2026, 1, 2), np.float64(3)]})
    plain = figure.to_plotly_json()
    assert plain["data"] == [{"type": "scatter", "y": [1.0, None]}]
    assert plain["layout"] == {"xaxis": {"range": ["2026-01-02T00:00:00", 3.0]}}


def test_a_layout_is_changed_within_and_never_shared() -> None:
    axis = {"title": {"text": "s"}}
    first, second = Figure(), Figure()
    for figure in (first, second):
        figure.update_layout(xaxis=axis)
    first.update_layout({"xaxis": {"title": {"standoff": 4}}}, margin={"t": 3})
    assert first.layout["xaxis"] == {"title": {"text": "s", "standoff": 4}}
    assert second.layout["xaxis"] == axis == {"title": {"text": "s"}}
    assert (first.margin_top_px, second.margin_top_px) == (3, 0)


class Sign(str, Enum):
    UP = "triangle-up"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, ("a", None), [2.5, True]), [1, ["a", None], [2.5, True]]),
        (Sign.UP, "triangle-up"),
        ([np.float32(0.5), np.int64(3)], [0.5, 3]),
        (range(2), [0, 1]),
        ([[datetime(2026, 1, 2)]], [["2026-01-02T00:00:00"]]),
    ],
)
def test_whatever_a_trace_holds_becomes_plain(value: Any, plain: Any) -> None:
    (trace,) = Figure(scatter_trace(customdata=value)).to_plotly_json()["data"]
    assert trace["customdata"] == plain
    assert type(trace["customdata"]) is type(plain) or isinstance(value, str)
