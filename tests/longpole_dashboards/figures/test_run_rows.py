from typing import Any

import pytest

from longpole_dashboards.figures.bands import Band
from longpole_dashboards.figures.figure import Figure
from longpole_dashboards.figures.run_rows import MAX_BANDS, MAX_STEP_BARS, draw_bands, draw_steps
from longpole_dashboards.figures.stage_raster import NUM_COLUMNS
from longpole_dashboards.formats import Zone
from support.dashboard_steps import START_NS, S, make_step
from support.plotly_figures import check_figure


def make_bands(count: int) -> list[Band]:
    return [
        Band("gen" if n % 2 else "update_actor", n // 2, START_NS + n * S, START_NS + (n + 1) * S)
        for n in range(count)
    ]


def test_many_bands_are_a_picture_whose_cells_know_their_step() -> None:
    bands = make_bands(2 * MAX_BANDS)
    span_ns = (START_NS, START_NS + 2 * MAX_BANDS * S)
    figure: Any = check_figure(Figure(*draw_bands(bands, span_ns, Zone(), "dark", "y2")))
    (picture,) = figure.data
    assert picture.z.shape == (1, NUM_COLUMNS)
    assert set(picture.text[0]) == {"gen", "update actor"}
    steps = list(picture.customdata[0])
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, MAX_BANDS - 1)


def test_few_bands_are_a_trace_a_stage() -> None:
    traces = draw_bands(make_bands(4), (START_NS, START_NS + 4 * S), Zone(), "dark", "y2")
    assert [trace["type"] for trace in traces] == ["bar", "bar"]


def test_rows_stand_at_the_clock_of_the_viewer_whatever_the_zone_of_the_browser() -> None:
    zone = Zone.from_browser({"name": "Europe/Berlin"})
    span_ns = (START_NS, START_NS + 200 * S)
    step = make_step(1, start_ns=START_NS)
    figure = Figure(
        *draw_bands([Band("gen", 1, *span_ns)], span_ns, zone, "dark", "y2"),
        draw_steps([step], span_ns[1], span_ns, zone, "dark", "y3"),
    )
    clock = zone.local(START_NS).isoformat(timespec="milliseconds")
    # As text: a number would be moved by the zone once more.
    assert [trace["base"] for trace in figure.to_plotly_json()["data"]] == [[clock], [clock]]


@pytest.mark.parametrize("count", [3, 5 * MAX_STEP_BARS])
def test_a_bar_of_several_steps_opens_the_longest(count: int) -> None:
    steps = [make_step(n, start_ns=START_NS + n * 90 * S) for n in range(count)]
    steps[2] = make_step(2, {"gen": 85.0}, start_ns=START_NS + 180 * S)
    span_ns = (START_NS, START_NS + count * 90 * S)
    trace = draw_steps(steps, span_ns[1], span_ns, Zone(), "dark", "y3")
    assert len(trace["base"]) <= MAX_STEP_BARS
    assert 2 in [detail[0] for detail in trace["customdata"]]
    assert sum(trace["x"]) == pytest.approx(count * 90_000, rel=0.2)
