# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from typing import Any

import pytest

from longpole_dashboards.pages.run_energy import PANELS
from longpole_dashboards.theme import ThemeName
from support.dashboard_components import words
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, LIVE_RUN, FakeService
from support.dashboard_rendering import NOW_NS, make_view, render


def shown(query: dict[str, str], theme: ThemeName = "dark") -> dict[str, Any]:
    return render(PANELS, FakeService(NOW_NS), make_view(query, theme))


@pytest.mark.parametrize("axis", ["step", "time"])
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_energy_of_every_step_stacked_by_stage(axis: str, theme: ThemeName) -> None:
    found = shown({"id": LIVE_RUN, "axis": axis}, theme)
    figure = found["run-energy-steps.figure"]
    bars, cost = figure.data[:-1], figure.data[-1]
    assert {bar.name for bar in bars} >= {"generate", "update actor"} or len(bars) >= 4
    assert len(cost.y) == len(bars[0].y) > 10
    aside = " ".join(words(found["run-energy-aside.children"]).split())
    assert "in the last step" in aside
    assert "J a token" in aside
    assert "in the whole run" in aside
    stages = words(found["run-energy-stages.children"])
    assert "W" in stages


def test_an_estimate_says_so() -> None:
    found = shown({"id": ASYNC_RUN})
    assert "≈" in words(found["run-energy-aside.children"])
    assert "≈" in words(found["run-energy-stages.children"])
    assert "/" in found["run-energy-steps.figure"].data[0].marker.pattern.shape


def test_without_energy_the_source_is_named() -> None:
    found = shown({"id": BARE_RUN})
    assert found["run-energy-body.style"] == {"display": "none"}
    assert "NVML" in words(found["run-energy-absent.children"])
