"""Charts are drawn when they come near, and their places do not move meanwhile."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from longpole_dashboards.addresses import run_address
from support.dashboard_browser import FakeServer, open_page
from support.dashboard_fake_service import LIVE_RUN

pytestmark = pytest.mark.browser

FIRST, LAST = "#run-shares .barlayer .point", "#run-health .xtick text"
PLACE = """
(() => {
  const box = document.getElementById('run-health').getBoundingClientRect();
  return [Math.round(box.top + scrollY), Math.round(box.height)];
})()
"""
TOLD_TWICE = """
const Real = window.IntersectionObserver;
window.IntersectionObserver = class extends Real {
  constructor(act, options) {
    super((entries, observer) => {
      const before = { isIntersecting: false, boundingClientRect: { top: 9e5, bottom: 9e5 } };
      act(entries.flatMap((entry) => [{ ...before, target: entry.target }, entry]), observer);
    }, options);
  }
};
"""


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """As people see it: a small window, in which nothing is drawn before it comes near."""
    window = {"width": 1280, "height": 500}
    with open_page(chromium, draws_all=False, viewport=window) as (opened, problems):
        yield opened
        found = list(problems.found)
    assert found == []


def open_top(page: Page, server: FakeServer) -> None:
    """Open the run, with everything told that its last chart needs."""
    page.goto(server.address + run_address(LIVE_RUN))
    page.wait_for_selector(FIRST)
    page.wait_for_selector("#run-verdict h2")
    page.wait_for_function("document.getElementById('run-gpus-aside').textContent")
    page.wait_for_function("document.getElementById('run-energy-aside').textContent")


def test_a_chart_far_below_is_drawn_when_it_is_scrolled_to(page: Page, server: FakeServer) -> None:
    open_top(page, server)
    expect(page.locator(LAST)).to_have_count(0)
    before = page.evaluate(PLACE)
    page.locator("#run-health").scroll_into_view_if_needed()
    page.wait_for_selector(LAST)
    assert page.evaluate(PLACE) == before


def test_what_comes_meanwhile_is_there_when_it_is_drawn(page: Page, server: FakeServer) -> None:
    open_top(page, server)
    step = server.finish_step(LIVE_RUN)
    expect(page.locator("#run-verdict")).to_contain_text(f"–{step}")
    page.locator("#run-health").scroll_into_view_if_needed()
    drawn = "document.querySelector('#run-health .js-plotly-plot')?._fullData ?? []"
    page.wait_for_function(f"({drawn}).some(({{ x }}) => x && Math.max(...x) >= {step})")


def test_paper_shows_all_of_a_page(page: Page, server: FakeServer) -> None:
    open_top(page, server)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_selector(LAST)


def test_an_address_of_a_panel_shows_it_drawn(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.address}{run_address(LIVE_RUN)}#run-health")
    page.wait_for_selector(LAST)


def test_charts_are_drawn_where_a_busy_browser_tells_late_where_they_were(
    page: Page, server: FakeServer
) -> None:
    """It tells of a chart twice at once then: far below as it was, and in sight as it is."""
    page.add_init_script(TOLD_TWICE)
    page.goto(f"{server.address}{run_address(LIVE_RUN)}#run-health")
    page.wait_for_selector(LAST)


def test_a_definition_is_shown_for_the_pointer_and_the_focus(
    page: Page, server: FakeServer
) -> None:
    open_top(page, server)
    word = page.locator("#run-tiles [data-hint]").first
    word.hover()
    hint = page.get_by_role("tooltip")
    expect(hint).to_contain_text(word.get_attribute("data-hint") or "no definition")
    page.keyboard.press("Escape")
    expect(hint).to_have_count(0)
    word.focus()
    expect(hint).to_be_visible()
    expect(word).to_have_attribute("aria-describedby", "lp-hint")
