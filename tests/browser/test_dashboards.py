"""The dashboards in Chromium, on a pretend service whose clock the tests move."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from longpole_dashboards.addresses import run_address, step_address
from support.dashboard_browser import PATIENCE_MS, FakeServer, open_page
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, HANGING_RUN, LIVE_RUN

pytestmark = pytest.mark.browser

NUM_BARS = "document.querySelector('#run-shares .js-plotly-plot')?.data?.[1]?.x?.length ?? 0"
CLOSED_BARS = """
(document.querySelector('#run-shares .js-plotly-plot')?.data?.[1]?.marker?.opacity ?? [])
    .filter(opacity => opacity === 1).length
"""


def open_run(page: Page, server: FakeServer, run_id: str, more: str = "") -> None:
    page.goto(server.address + run_address(run_id) + more)
    page.wait_for_selector("#run-shares .barlayer .point")
    # The last panel: from here on nothing moves on the page.
    page.wait_for_selector("#run-health .xtick text")


def open_step(page: Page, server: FakeServer, run_id: str, step: int) -> None:
    page.goto(server.address + step_address(run_id, step))
    expect(page.locator("#step-title h1")).to_have_text(f"Step {step}")
    page.wait_for_selector("#step-spread-figure .main-svg:nth-child(3)", state="attached")


def wait_for_more(page: Page, measure: str, than: int) -> None:
    page.wait_for_function(f"({measure}) > {than}", timeout=PATIENCE_MS)


def click_bar(page: Page, index: int) -> None:
    box = page.locator("#run-shares .barlayer .trace").nth(1).locator(".point").nth(index)
    found = box.bounding_box()
    assert found is not None
    page.mouse.click(found["x"] + found["width"] / 2, found["y"] + found["height"] / 2)


def drag(page: Page, plot: str, start: float, end: float) -> None:
    """Drag across a plot, from and to fractions of its width."""
    page.locator(plot).scroll_into_view_if_needed()
    box = page.locator(f"{plot} .nsewdrag").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=8)
    page.mouse.up()


def test_runs_are_listed_and_can_be_searched(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    rows = page.locator("#runs-grid .ag-center-cols-container .ag-row")
    expect(rows).to_have_count(6)
    page.get_by_label("Search runs").fill("starved")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("dapo-qwen3-32b-agents")
    page.wait_for_url(lambda url: "q=starved" in url)
    page.get_by_label("Search runs").fill("")
    expect(rows).to_have_count(6)


def test_runs_are_sorted_by_a_click_on_a_heading(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    rows = page.locator("#runs-grid .ag-center-cols-container .ag-row")
    expect(rows).to_have_count(6)
    heading = page.locator("#runs-grid .ag-header-cell[col-id='gpus']")
    first = page.locator("#runs-grid .ag-row[row-index='0'] [col-id='gpus']")
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    least = int(first.inner_text())
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    page.wait_for_function(
        "least => Number(document.querySelector(\"#runs-grid .ag-row[row-index='0'] "
        "[col-id='gpus']\").innerText) > least",
        arg=least,
    )


def test_a_row_leads_to_its_run_and_back(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    page.locator("#runs-grid .lp-cell-run", has_text="grpo-qwen3-8b-math").click()
    expect(page.locator("#run-title h1")).to_have_text("grpo-qwen3-8b-math")
    page.wait_for_url(lambda url: url.endswith(run_address(LIVE_RUN)))
    page.go_back()
    expect(page.locator("#runs-grid .ag-center-cols-container .ag-row")).to_have_count(6)


def test_a_click_beside_the_name_opens_the_run_too(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    page.locator("#runs-grid .ag-row span.lp-state-stalled").click()
    expect(page.locator("#run-title h1")).to_have_text("ppo-llama-70b-code")


def test_a_new_step_appears_without_reload(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    page.evaluate("window.notReloaded = true")
    before = int(page.evaluate(CLOSED_BARS))
    step = server.finish_step(LIVE_RUN)
    wait_for_more(page, CLOSED_BARS, before)
    assert page.evaluate("window.notReloaded")
    expect(page.locator("#run-verdict")).to_contain_text(f"–{step}")


def test_a_zoom_survives_new_steps(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    shown = "document.querySelector('#run-shares .js-plotly-plot')._fullLayout.xaxis.range"
    everything = page.evaluate(shown)
    drag(page, "#run-shares", 0.3, 0.5)
    page.wait_for_function(f"{shown}[0] > {everything[0]} + 1")
    page.wait_for_url(re.compile("zoom="))
    zoomed = [float(end) for end in page.url.partition("zoom=")[2].split("-")]
    page.wait_for_function(f"{shown}.join() === '{zoomed[0]:g},{zoomed[1]:g}'")
    step = server.finish_step(LIVE_RUN)
    expect(page.locator("#run-verdict")).to_contain_text(f"–{step}")
    assert page.evaluate(shown) == zoomed


def test_a_bar_leads_to_its_step_and_back(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    click_bar(page, 4)
    page.wait_for_url(re.compile(r"/step\?"))
    expect(page.locator("#step-title h1")).to_have_text("Step 5")
    page.wait_for_selector("#step-timeline .barlayer .point")
    page.go_back()
    page.wait_for_selector("#run-shares .barlayer .point")
    page.wait_for_url(lambda url: url.endswith(run_address(LIVE_RUN)))


def test_choices_are_part_of_the_address(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    page.locator("#run-unit").get_by_text("percent").click()
    page.wait_for_url(re.compile("unit=percent"))
    page.wait_for_function(
        "document.querySelector('#run-shares .js-plotly-plot').layout.yaxis.ticksuffix === ' %'"
    )
    pasted = page.url
    page.goto(server.address)
    page.goto(pasted)
    expect(page.locator("#run-unit input:checked")).to_have_value("percent")


def test_a_stage_that_is_open_too_long_is_seen(page: Page, server: FakeServer) -> None:
    open_run(page, server, HANGING_RUN)
    gauge = page.locator("#run-now .lp-gauge")
    expect(gauge).to_have_attribute("data-level", "hang")
    expect(gauge).to_contain_text("update weights")
    expect(gauge).to_contain_text("it may hang")
    expect(page.locator("#run-now [data-age]")).to_contain_text("min")


def test_the_age_of_the_open_stage_ticks_by_itself(page: Page, server: FakeServer) -> None:
    open_run(page, server, HANGING_RUN)
    age = page.locator("#run-now [data-age]")
    expect(age).to_contain_text("min")
    shown = age.inner_text()
    expect(age).not_to_have_text(shown)


def test_a_sample_row_opens_its_drawer_and_marks_its_bar(page: Page, server: FakeServer) -> None:
    open_step(page, server, LIVE_RUN, 20)
    rows = page.locator("#step-samples .ag-center-cols-container .ag-row")
    expect(rows.nth(2).locator(".ag-cell").first).to_have_text(re.compile(r"\S"))
    sample = rows.nth(2).locator(".ag-cell").first.inner_text()
    rows.nth(2).click()
    drawer = page.locator("#sample-body")
    expect(drawer).to_contain_text(sample)
    expect(drawer).to_contain_text("other samples of its group")
    page.wait_for_url(re.compile(f"sample={sample}"))
    expect(page.locator("#step-samples .lp-row-selected .ag-cell").first).to_have_text(sample)
    page.wait_for_function(
        "new Set(document.querySelector('#step-timeline .js-plotly-plot').data"
        ".find(trace => trace.meta === 'sample').marker.color).size === 2"
    )
    page.keyboard.press("Escape")
    page.wait_for_function("!location.search.includes('sample=')")


def test_a_sample_bar_opens_the_drawer_and_the_address_alone_does(
    page: Page, server: FakeServer
) -> None:
    open_step(page, server, LIVE_RUN, 20)
    rows = page.locator("#step-timeline .barlayer .trace")
    slowest = rows.filter(has=page.locator(".point:nth-child(16)")).first.locator(".point").nth(3)
    slowest.scroll_into_view_if_needed()
    box = slowest.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile("sample="))
    pasted = page.url
    page.goto(server.address)
    page.goto(pasted)
    expect(page.locator("#sample-body")).to_contain_text("other samples of its group")


def test_arrow_keys_go_from_step_to_step(page: Page, server: FakeServer) -> None:
    open_step(page, server, LIVE_RUN, 20)
    page.keyboard.press("ArrowRight")
    expect(page.locator("#step-title h1")).to_have_text("Step 21")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#step-title h1")).to_have_text("Step 20")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#step-title h1")).to_have_text("Step 19")


def test_the_theme_switches_everything_and_is_remembered(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    root = page.locator("html")
    expect(root).to_have_attribute("data-mantine-color-scheme", "dark")
    ground = "getComputedStyle(document.querySelector('.lp-panel')).backgroundColor"
    font = "document.querySelector('#run-shares .js-plotly-plot')._fullLayout.font.color"
    dark = page.evaluate(f"[{ground}, {font}]")
    page.locator("#theme-toggle").click()
    expect(root).to_have_attribute("data-mantine-color-scheme", "light")
    page.wait_for_function(f"{font} !== '{dark[1]}'")
    assert page.evaluate(ground) != dark[0]
    page.reload()
    expect(root).to_have_attribute("data-mantine-color-scheme", "light")
    page.wait_for_selector("#run-shares .barlayer .point")
    page.wait_for_function(f"{font} !== '{dark[1]}'")


def test_pause_holds_the_view_still_and_jump_goes_live(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    page.locator("#pause").click()
    expect(page.locator("#connection")).to_contain_text("paused")
    before = int(page.evaluate(CLOSED_BARS))
    shown = page.locator("#connection").inner_text()
    server.finish_step(LIVE_RUN)
    # Two heartbeats later a page that was not paused would have moved.
    page.wait_for_timeout(5000)
    assert page.evaluate(CLOSED_BARS) == before
    assert page.locator("#connection").inner_text() == shown
    page.locator("#jump").click()
    wait_for_more(page, CLOSED_BARS, before)
    expect(page.locator("#connection")).not_to_contain_text("paused")


def test_zooming_the_gpus_asks_for_that_time_and_jump_returns(
    page: Page, server: FakeServer
) -> None:
    open_run(page, server, LIVE_RUN)
    page.wait_for_selector("#run-gpus .heatmaplayer image")
    drag(page, "#run-gpus", 0.3, 0.5)
    page.wait_for_url(re.compile(r"time=\d+-\d+"))
    page.wait_for_function(
        "(() => { const [a, b] = document.querySelector('#run-gpus .js-plotly-plot').layout"
        ".xaxis.range; return new Date(b) - new Date(a) < 200000; })()"
    )
    page.locator("#jump").click()
    page.wait_for_function("!location.search.includes('time=')")
    page.wait_for_function(
        "(() => { const [a, b] = document.querySelector('#run-gpus .js-plotly-plot')._fullLayout"
        ".xaxis.range; return new Date(b) - new Date(a) === 600000; })()"
    )


def test_no_chart_offers_to_leave_the_server(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    buttons = page.locator(".modebar-btn").evaluate_all("found => found.map(b => b.ariaLabel)")
    assert set(buttons) == {"Download plot as a PNG", "Reset axes"}


def test_the_decision_table_is_one_click_away(page: Page, server: FakeServer) -> None:
    open_run(page, server, LIVE_RUN)
    page.locator("#decisions-open").click()
    marked = page.locator("#decisions-table .lp-current")
    expect(marked).to_contain_text("rollout.long_tail")


@pytest.mark.parametrize("run_id", [ASYNC_RUN, BARE_RUN])
def test_runs_with_little_data_say_what_is_missing(
    page: Page, server: FakeServer, run_id: str
) -> None:
    open_run(page, server, run_id)
    expect(page.locator(".lp-page")).to_contain_text(re.compile("[Nn]ot reported|unknown"))
    open_step(page, server, run_id, 5)
    expect(page.locator("#step-samples-absent")).to_contain_text("longpole.trajectory()")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/run?id=no-such", "There is no run no-such"),
        (step_address(LIVE_RUN, 9999), "has no step 9999"),
        ("/run", "names no run"),
        ("/step", "names no step"),
        ("/nowhere", "There is no such page"),
    ],
)
def test_addresses_that_lead_nowhere_say_so(
    page: Page, server: FakeServer, path: str, words: str
) -> None:
    page.goto(server.address + path)
    expect(page.locator("#page")).to_contain_text(words)
    # No empty panel stands below it.
    empty = page.locator(".lp-page > :not(.lp-notice-slot)").filter(visible=True)
    expect(empty).to_have_count(0)
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("h1")).to_have_text("Runs")


def test_a_step_that_is_not_there_leads_to_its_run(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.address}/step?run={quote(LIVE_RUN, safe='')}")
    expect(page.locator(".lp-empty h2").first).to_have_text("The address names no step.")
    page.get_by_role("link", name=f"Run {LIVE_RUN}").click()
    page.wait_for_url(re.compile(r"/run\?id="))
    page.wait_for_selector("#run-shares .barlayer .point")


def test_the_first_page_says_how_to_connect_a_trainer(page: Page) -> None:
    empty = FakeServer("--empty")
    empty.start()
    try:
        page.goto(empty.address)
        expect(page.locator("#runs-empty")).to_contain_text("No run has reported yet")
        expect(page.locator("#runs-empty")).to_contain_text("longpole.init")
        expect(page.locator("#runs-table")).to_be_hidden()
    finally:
        empty.stop()


def test_a_restarted_server_is_found_again(chromium: Browser) -> None:
    """Without a check for console errors: a browser reports every refused connection."""
    server = FakeServer()
    server.start()
    try:
        with open_page(chromium) as (page, _):
            open_run(page, server, LIVE_RUN)
            page.evaluate("window.notReloaded = true")
            server.stop()
            notice = page.locator("#connection-notice")
            expect(notice).to_contain_text("Connection to the server lost")
            server.start()
            expect(notice).to_be_empty()
            before = int(page.evaluate(CLOSED_BARS))
            server.finish_step(LIVE_RUN)
            wait_for_more(page, CLOSED_BARS, before)
            assert page.evaluate("window.notReloaded")
    finally:
        server.stop()


def test_a_page_whose_push_alone_is_lost_says_so_and_recovers(chromium: Browser) -> None:
    """As through a proxy that ends websockets: ordinary questions are answered all the time."""
    server = FakeServer()
    server.start()
    try:
        with open_page(chromium) as (page, _):
            open_run(page, server, LIVE_RUN)
            expect(page.locator("#connection-pill")).to_have_attribute("data-state", "live")
            server.let_push(False)
            notice = page.locator("#connection-notice")
            expect(notice).to_contain_text("Connection to the server lost")
            expect(page.locator("#connection-pill")).to_have_attribute("data-state", "lost")
            before = int(page.evaluate(CLOSED_BARS))
            server.finish_step(LIVE_RUN)
            server.let_push(True)
            expect(notice).to_be_empty()
            wait_for_more(page, CLOSED_BARS, before)
            expect(page.locator("#connection-pill")).to_have_attribute("data-state", "live")
    finally:
        server.stop()


def test_who_was_signed_out_is_not_told_of_a_lost_connection(chromium: Browser) -> None:
    server = FakeServer()
    server.start()
    try:
        with open_page(chromium) as (page, _):
            open_run(page, server, LIVE_RUN)
            page.evaluate("window.notReloaded = true")
            page.route("**/api/v1/me", lambda route: route.fulfill(status=401))
            server.stop()
            notice = page.locator("#connection-notice")
            expect(notice).to_contain_text("You are signed out")
            expect(page.locator("#connection")).to_contain_text("signed out")
            link = notice.get_by_role("link", name="Sign in")
            expect(link).to_have_attribute("href", re.compile(r"/login\?next=%2Frun%3Fid%3D"))
            # In another tab they signed in again.
            page.unroute("**/api/v1/me")
            server.start()
            page.wait_for_function("() => !window.notReloaded")
            expect(notice).to_be_empty()
    finally:
        server.stop()


def test_after_a_long_outage_the_page_begins_anew(chromium: Browser) -> None:
    """Dash gives up its connection after some minutes; people look again in the morning."""
    server = FakeServer()
    server.start()
    try:
        with open_page(chromium) as (page, _):
            page.clock.install()
            open_run(page, server, LIVE_RUN)
            page.evaluate("window.notReloaded = true")
            server.stop()
            expect(page.locator("#connection-notice")).to_contain_text("lost")
            page.clock.run_for(600_000)
            server.start()
            page.wait_for_function("() => !window.notReloaded")
            expect(page.locator("#connection-pill")).to_have_attribute("data-state", "live")
            expect(page.locator("#run-title")).to_contain_text("grpo")
    finally:
        server.stop()
