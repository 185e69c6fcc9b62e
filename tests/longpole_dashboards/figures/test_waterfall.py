# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_dashboards.figures.waterfall import make_bars, part_label, waterfall
from longpole_server.analysis.decomposition import decompose
from longpole_server.model.decomposition import Decomposition, Part, WindowMeans
from support.dashboard_steps import make_step
from support.plotly_figures import check_figure

SECONDS = st.floats(0.01, 500.0)
STAGES = ("gen", "reward", "update_actor", "update_weights")
WINDOW = st.fixed_dictionaries(dict.fromkeys(STAGES, SECONDS))


@given(WINDOW, WINDOW)
def test_bars_join_and_end_where_throughput_does(
    before: dict[str, float], after: dict[str, float]
) -> None:
    found = decompose([make_step(1, before)], [make_step(2, after)])
    bars = make_bars(found)
    if not bars:
        assert found.total == pytest.approx(0.0, abs=1e-9)
        return
    assert bars[0].start == found.before.loop_throughput
    for one, following in pairwise(bars):
        assert one.end == following.start
    assert bars[-1].end == pytest.approx(found.after.loop_throughput, rel=1e-9)
    assert math.prod(bar.ratio + 1 for bar in bars) == pytest.approx(math.exp(found.total or 0.0))


def make_decomposition(*log_changes: float) -> Decomposition:
    parts = tuple(
        Part("stage", f"stage_{index}", "s", 1.0, 2.0, change)
        for index, change in enumerate(log_changes)
    )
    means = WindowMeans(1, 1.0, 1.0, 1.0, None, 100.0, 100.0)
    return Decomposition("tokens_per_s", means, means, sum(log_changes), None, parts)


def test_many_small_parts_are_drawn_as_one() -> None:
    bars = make_bars(make_decomposition(0.5, *[0.0001] * 6, *[-0.02] * 12))
    assert len(bars) == 10
    assert bars[0].label == "stage 0"
    assert bars[-1].label == "10 smaller parts"


def test_the_figure_names_both_ends_and_every_part() -> None:
    figure: Any = check_figure(waterfall(make_decomposition(0.5, -0.2), theme="dark"))
    assert list(figure.layout.yaxis.ticktext) == [
        "<b>before</b>",
        "stage 0",
        "stage 1",
        "<b>after</b>",
    ]
    assert "1.0 s → 2.0 s" in figure.data[1].text[0]


def test_what_is_not_known_is_said() -> None:
    unknown = WindowMeans(0, None, None, None, None, None, None)
    found = Decomposition(None, unknown, unknown, None, None, (), "no step on one side")
    figure: Any = check_figure(waterfall(found, theme="light"))
    assert "no step on one side" in figure.layout.annotations[0].text


def test_parts_have_names_that_people_read() -> None:
    assert part_label(Part("outside", "testing", "s", 1, 2, 0.1)) == "validation, between steps"
    assert part_label(Part("tokens", "tokens", "tokens", 1, 2, 0.1)) == "tokens a step"
    assert part_label(Part("gpus", "gpus", "1", 1, 2, 0.1)) == "GPUs"
