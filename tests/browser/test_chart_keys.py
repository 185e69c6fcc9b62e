"""Charts without a mouse: by keyboard, and by touch."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from longpole_dashboards.addresses import run_address, sample_address, step_address
from support.dashboard_browser import FakeServer, open_page
from support.dashboard_fake_service import LIVE_RUN

pytestmark = pytest.mark.browser

LINES = """
id => [...document.querySelectorAll(`#${id} .lp-crosshair`)]
    .filter(line => line.style.display === 'block').map(line => line.getBoundingClientRect().left)
"""
NEW_STAGE = """(() => {
  const plot = document.querySelector('#run-shares .js-plotly-plot');
  const [low, high] = plot._fullLayout.xaxis.range;
  const xaxis = { ...plot.layout.xaxis, autorange: false, range: [low + 1, high + 1] };
  const bars = plot.data.find(({ type }) => type === 'bar');
  const customdata = bars.customdata.map(([step]) => [step, 'of a new stage']);
  const data = [{ ...bars, customdata }, ...plot.data];
  window.Plotly.react(plot, { data, layout: { ...plot.layout, xaxis } });
})()"""
STEP = step_address(LIVE_RUN, 20)
SAMPLE = sample_address(LIVE_RUN, "0020-003-2")
# Address, a chart, and what stands in it once it is drawn.
CHARTS = {
    "run": (run_address(LIVE_RUN), "run-shares", ".barlayer .point"),
    "step": (STEP, "step-timeline", ".heatmaplayer image"),
    "sample": (SAMPLE, "samplepage-lanes", ".barlayer .point"),
    "cluster": ("/cluster", "cluster-heat", ".heatmaplayer image"),
}


def focus_chart(page: Page, server: FakeServer, name: str) -> str:
    address, chart, drawn = CHARTS[name]
    page.goto(server.address + address)
    page.wait_for_selector(f"#{chart} {drawn}")
    page.locator(f"#{chart}").focus()
    return chart


def read_cursor(page: Page, chart: str) -> tuple[float, float]:
    mark = page.locator(f"#{chart} .lp-chart-cursor")
    expect(mark).to_be_visible()
    box = mark.bounding_box()
    assert box is not None
    return box["x"], box["y"]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_reached_by_tab_has_a_name_and_shows_the_focus(
    page: Page, server: FakeServer, name: str
) -> None:
    chart = focus_chart(page, server, name)
    place = page.locator(f"#{chart}")
    page.keyboard.press("Shift+Tab")
    expect(place).not_to_be_focused()
    page.keyboard.press("Tab")
    expect(place).to_be_focused()
    style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"
    expect(place).to_have_accessible_name(re.compile(r"\w+.*: arrow keys move"))
    # Enter is spoken of where it opens something; screen readers know where to read from.
    words = page.evaluate("getComputedStyle(document.activeElement, '::after').content")
    for said in (place.get_attribute("aria-label"), words):
        assert ("Enter opens" in str(said)) == (name != "cluster")
    expect(page.locator("#lp-chart-said")).to_have_attribute("aria-live", "polite")
    # A chart that only says why it is empty is none that keys work on.
    plot = f"document.querySelector('#{chart} .js-plotly-plot')"
    page.evaluate(f"longpoleChartKeys.makeReachable({plot}, {{ data: [] }})")
    for mark in ("tabindex", "role", "aria-roledescription", "aria-label"):
        assert place.get_attribute(mark) is None


def test_enter_opens_the_step_that_the_arrows_went_to(page: Page, server: FakeServer) -> None:
    chart = focus_chart(page, server, "run")
    page.keyboard.press("Home")
    first, _ = read_cursor(page, chart)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    third, _ = read_cursor(page, chart)
    assert third > first + 4
    page.keyboard.press("ArrowLeft")
    second, _ = read_cursor(page, chart)
    assert first < second < third
    expect(page.locator(f"#{chart} .hovertext").first).to_be_visible()
    expect(page.locator("#lp-chart-said")).to_contain_text("step 2")
    # A stage that is new moves all others one on, and another part moves them aside.
    page.evaluate(NEW_STAGE)
    mark = "document.querySelector('#run-shares .lp-chart-cursor')"
    page.wait_for_function(f"{mark}.getBoundingClientRect().x < {second} - 2")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/step\?.*step=2$"))
    page.go_back()
    page.wait_for_selector("#run-shares .barlayer .point")


def test_up_and_down_go_from_stage_to_stage_of_one_step(page: Page, server: FakeServer) -> None:
    chart = focus_chart(page, server, "run")
    page.keyboard.press("Home")
    x, y = read_cursor(page, chart)
    # The first may be on top or at the bottom of its column.
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    upper = read_cursor(page, chart)
    page.keyboard.press("ArrowDown")
    lower = read_cursor(page, chart)
    assert abs(upper[0] - x) < 1
    assert abs(lower[0] - x) < 1
    assert upper[1] < lower[1]
    assert upper[1] <= y


def test_keys_move_the_crosshair_of_every_chart(page: Page, server: FakeServer) -> None:
    chart = focus_chart(page, server, "run")
    page.wait_for_selector("#run-engines .heatmaplayer image")
    page.wait_for_selector("#run-health .xtick text")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    read_cursor(page, chart)
    for other in ("run-shares", "run-throughput", "run-mfu", "run-gpus", "run-engines"):
        page.wait_for_function(f"({LINES})('{other}').length === 1")
    page.keyboard.press("Escape")
    expect(page.locator(f"#{chart}")).not_to_be_focused()
    for other in ("run-shares", "run-gpus"):
        page.wait_for_function(f"({LINES})('{other}').length === 0")
    expect(page.locator(f"#{chart} .lp-chart-cursor")).to_be_hidden()


def test_the_cursor_stays_on_its_step_while_data_comes(page: Page) -> None:
    own = FakeServer()
    own.start()
    try:
        focus_chart(page, own, "run")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        read_cursor(page, "run-shares")
        number = own.finish_step(LIVE_RUN)
        ends = "document.querySelector('#run-shares .js-plotly-plot')._fullLayout.xaxis.range[1]"
        page.wait_for_function(f"{ends} > {number}")
        expect(page.locator("#run-shares")).to_be_focused()
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/step\?.*step=2$"))
    finally:
        own.stop()


def test_arrows_of_the_step_page_are_the_chart_s_until_it_is_left(
    page: Page, server: FakeServer
) -> None:
    chart = focus_chart(page, server, "step")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    read_cursor(page, chart)
    assert "step=20" in page.url
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"sample="))
    expect(page.locator("#sample-drawer, .mantine-Drawer-content").first).to_be_visible()
    page.locator(f"#{chart}").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile(r"step=19"))


def test_a_click_on_a_chart_leaves_the_arrows_to_the_page(page: Page, server: FakeServer) -> None:
    chart = focus_chart(page, server, "step")
    page.keyboard.press("Escape")
    box = page.locator(f"#{chart} .nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 20, box["y"] + 10)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile(r"step=19"))


def test_enter_opens_another_sample_of_the_group(page: Page, server: FakeServer) -> None:
    chart = focus_chart(page, server, "sample")
    page.keyboard.press("End")
    read_cursor(page, chart)
    page.wait_for_function(f"({LINES})('{chart}').length === 1")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/trajectory\?.*id=(?!0020-003-2)"))


def test_enter_chooses_a_node_of_the_cluster_map(page: Page, server: FakeServer) -> None:
    page.goto(server.address + "/cluster")
    page.wait_for_selector("#cluster-map .heatmaplayer image")
    page.locator("#cluster-map").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"node="))


def test_a_finger_moves_the_crosshair(chromium: Browser, server: FakeServer) -> None:
    with open_page(chromium, has_touch=True) as (page, problems):
        page.goto(server.address + run_address(LIVE_RUN))
        page.wait_for_selector("#run-shares .barlayer .point")
        page.wait_for_selector("#run-gpus .heatmaplayer image")
        page.locator("#run-gpus").scroll_into_view_if_needed()
        box = page.locator("#run-gpus .nsewdrag").first.bounding_box()
        assert box is not None
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + 60)
        for chart in ("run-gpus", "run-engines", "run-throughput"):
            page.wait_for_function(f"({LINES})('{chart}').length === 1")
        assert problems.found == []
