# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import pytest

from longpole_dashboards.pages.compare_panels import PANELS
from longpole_dashboards.pages.compare_reading import last_and_first_steps
from longpole_dashboards.theme import ThemeName
from longpole_server.errors import NotFoundError
from support.dashboard_components import words
from support.dashboard_fake_service import (
    ASYNC_RUN,
    BARE_RUN,
    BASELINE_RUN,
    HANGING_RUN,
    LIVE_RUN,
    FakeService,
)
from support.dashboard_rendering import NOW_NS, make_view, render


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_two_runs(theme: ThemeName) -> None:
    view = make_view({"a": LIVE_RUN, "b": BASELINE_RUN}, theme)
    shown = render(PANELS, FakeService(NOW_NS), view)
    assert "faster than before" in words(shown["compare-headline.children"])
    assert "gen +" in words(shown["compare-headline.children"])
    assert "all parts, multiplied" in words(shown["compare-table.children"])
    assert shown["compare-waterfall.figure"].data
    assert "not set" in words(shown["compare-config.children"])
    assert shown["compare-config-aside.children"] == "3 settings differ"
    assert "swap" in words(shown["compare-presets.children"])


def test_each_side_says_what_most_of_its_steps_wait_for() -> None:
    view = make_view({"a": LIVE_RUN, "b": BASELINE_RUN})
    shown = render(PANELS, FakeService(NOW_NS), view)
    assert "of 19 steps" in words(shown["compare-after.children"])


def test_a_run_alone_is_compared_with_its_own_beginning() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"a": LIVE_RUN}))
    assert "steps 2–15" in words(shown["compare-before.children"])
    assert "steps 16–30" in words(shown["compare-after.children"]) or "steps 17–30" in words(
        shown["compare-after.children"]
    )


@pytest.mark.parametrize("run", [LIVE_RUN, HANGING_RUN, ASYNC_RUN, BARE_RUN])
@pytest.mark.parametrize("other", [LIVE_RUN, BARE_RUN])
def test_every_pair_of_runs(run: str, other: str) -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({"a": run, "b": other}))
    assert words(shown["compare-headline.children"])


def test_windows_without_steps_say_so() -> None:
    query = {"a": LIVE_RUN, "b": LIVE_RUN, "from": "900", "b_from": "1", "b_to": "5"}
    shown = render(PANELS, FakeService(NOW_NS), make_view(query))
    assert "not known" in words(shown["compare-headline.children"])
    assert "no judged steps" in words(shown["compare-after.children"])


def test_without_a_run_nothing_is_compared() -> None:
    shown = render(PANELS, FakeService(NOW_NS), make_view({}))
    assert "Choose what to compare" in words(shown["compare-headline.children"])
    assert shown["compare-body.style"] == {"display": "none"}
    assert len(shown["compare-run.data"]) == 6


def test_a_run_that_does_not_exist_is_refused() -> None:
    with pytest.raises(NotFoundError):
        render(PANELS, FakeService(NOW_NS), make_view({"a": "no/such", "b": LIVE_RUN}))


def test_windows_of_a_short_run_do_not_overlap() -> None:
    service = FakeService(NOW_NS)
    run = service.get_run(HANGING_RUN).summary
    assert last_and_first_steps(run) == ((5, 8), (1, 4))
    assert last_and_first_steps(service.get_run(BASELINE_RUN).summary) == ((101, 120), (1, 20))
