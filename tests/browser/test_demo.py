"""The whole path once: trainer, agents, server and browser, each in a process of its own.

With `LONGPOLE_SCREENSHOTS=1` the screenshots of the documentation are made anew.
"""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as NothingCame

from longpole_dashboards.addresses import compare_address, run_address, sample_address
from support.dashboard_browser import PATIENCE_MS, open_page
from support.server_process import ServerProcess, start_longpole

pytestmark = [pytest.mark.browser, pytest.mark.integration, pytest.mark.timeout(600)]

RUN_ID = "demo/browser"
MAKES_SCREENSHOTS = bool(os.environ.get("LONGPOLE_SCREENSHOTS"))
SCREENSHOTS = Path(__file__).parents[2] / "docs" / "screenshots"
# Steps there are when the browser opens: enough for a verdict, or for a picture.
FIRST_STEPS = 20 if MAKES_SCREENSHOTS else 4
# After that a click has led nowhere.
CLICK_MS = 10_000
SPEED = "1" if MAKES_SCREENSHOTS else "2"
BARS = """
(document.querySelector('#run-shares .js-plotly-plot')?.data?.[0]?.marker?.opacity ?? [])
    .filter(opacity => opacity === 1).length
"""
# Charts that show anything are drawn anew in the colours of the page.
CHARTS_HAVE_THE_THEME = """
() => {
  const muted = getComputedStyle(document.documentElement).getPropertyValue('--lp-muted').trim();
  return [...document.querySelectorAll('.js-plotly-plot')]
      .filter(plot => plot.data?.length)
      .every(plot => plot._fullLayout.font.color === muted);
}
"""
# Where a server that is installed keeps its store; that of a test lies where nobody has one.
SHOW_USUAL_PLACE = """
() => {
  for (const node of document.getElementById('cluster-storage-aside')?.childNodes ?? [])
    node.nodeValue = node.nodeValue?.replace(/ in \\S+/, ' in /var/lib/longpole/store');
}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    started = ServerProcess(directory, "--no-agent")
    demo = start_longpole(
        "demo", "--server", started.url, "--run-id", RUN_ID, "--speed", SPEED,
        log=directory / "demo.log",
    )  # fmt: skip
    try:
        path = "/runs/demo%2Fbrowser"
        started.wait_for("/runs", lambda answer: len(answer["runs"]) == 1)
        while True:
            answer = started.client.get(f"/api/v1{path}").json()
            if answer["num_steps"] >= FIRST_STEPS:
                break
            assert demo.poll() is None, (directory / "demo.log").read_text()
            started.wait_for(path, lambda run, n=answer["num_steps"]: run["num_steps"] > n)
        yield started
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGINT)
            demo.wait(timeout=60)
        assert started.interrupt() == 0


def click_until(page: Page, bar: Locator, address: re.Pattern[str]) -> None:
    """Click a bar until it leads to an address: with every new step the bars move."""
    for _ in range(PATIENCE_MS // CLICK_MS):
        with suppress(NothingCame):
            bar.scroll_into_view_if_needed(timeout=CLICK_MS)
            box = bar.bounding_box(timeout=CLICK_MS)
            assert box is not None
            page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            page.wait_for_url(address, timeout=CLICK_MS)
        if address.search(page.url):
            return
    raise AssertionError(f"no click leads to {address.pattern}")


def photograph(page: Page, name: str, folder: Path) -> None:
    """Take pictures of a page in both themes, ending in the one it began with."""
    root = page.locator("html")
    began_with = root.get_attribute("data-mantine-color-scheme")
    for theme in ("dark", "light") if began_with == "light" else ("light", "dark"):
        page.locator("#theme-toggle").click()
        expect(root).to_have_attribute("data-mantine-color-scheme", theme)
        page.wait_for_function(CHARTS_HAVE_THE_THEME)
        page.wait_for_timeout(1000 if MAKES_SCREENSHOTS else 200)
        page.evaluate(SHOW_USUAL_PLACE)
        page.screenshot(path=folder / f"{name}-{theme}.png", full_page=True)


def test_a_person_follows_a_live_run(
    chromium: Browser, server: ServerProcess, tmp_path: Path
) -> None:
    folder = SCREENSHOTS if MAKES_SCREENSHOTS else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    with open_page(chromium) as (page, problems):
        # The list of runs leads to the run.
        page.goto(server.url)
        row = page.locator("#runs-grid .lp-cell-run")
        expect(row).to_have_count(1)
        photograph(page, "runs", folder)
        row.click()
        page.wait_for_selector("#run-shares .barlayer .point")
        page.wait_for_selector("#run-gpus .heatmaplayer image")
        page.wait_for_selector("#run-health .xtick text")
        expect(page.locator("#run-now")).to_contain_text("step")
        expect(page.locator("#run-verdict")).to_contain_text("confidence")

        # A new step arrives without a reload.
        page.evaluate("window.notReloaded = true")
        before = int(page.evaluate(BARS))
        page.wait_for_function(f"({BARS}) > {before}", timeout=PATIENCE_MS)
        assert page.evaluate("window.notReloaded")
        photograph(page, "run", folder)

        # A stage of a step leads to that step.
        bars = page.locator("#run-shares .barlayer .trace").first.locator(".point")
        click_until(page, bars.nth(FIRST_STEPS - 2), re.compile(r"/step\?"))
        expect(page.locator("#step-title h1")).to_have_text(re.compile(r"Step \d+"))
        page.wait_for_selector("#step-timeline .barlayer .point")
        page.wait_for_selector("#step-timeline .heatmaplayer image")
        photograph(page, "step", folder)

        # A sample of it opens; back goes back to the run.
        samples = page.locator("#step-samples .ag-center-cols-container .ag-row")
        expect(samples.first.locator(".ag-cell").first).to_have_text(re.compile(r"\S"))
        sample = samples.first.locator(".ag-cell").first.inner_text()
        samples.first.click()
        expect(page.locator("#sample-body")).to_contain_text(sample)
        page.go_back()
        page.go_back()
        page.wait_for_selector("#run-shares .barlayer .point")
        page.wait_for_url(lambda url: url.endswith(run_address(RUN_ID)))

        # The sample's own page, the run against its beginning, the cluster, the alerts.
        page.goto(server.url + sample_address(RUN_ID, sample))
        page.wait_for_selector("#samplepage-lanes .barlayer .point")
        page.wait_for_selector("#samplepage-siblings td")
        # Its engine tells of its requests.
        halves = page.locator("#samplepage-facts div", has_text="prefill, decode")
        expect(halves).to_contain_text(re.compile(r"s \+ "))
        photograph(page, "sample", folder)
        page.goto(server.url + compare_address(RUN_ID, RUN_ID))
        page.wait_for_selector("#compare-waterfall .barlayer .point")
        photograph(page, "compare", folder)
        page.locator("#nav-cluster").click()
        page.wait_for_selector("#cluster-map .heatmaplayer image")
        page.wait_for_selector("#cluster-heat .heatmaplayer image")
        photograph(page, "cluster", folder)
        page.locator("#nav-alerts").click()
        expect(page.locator("#alerts-rules .lp-rule").first).to_be_visible()
        photograph(page, "alerts", folder)

        # The theme switches.
        page.goto(server.url + run_address(RUN_ID))
        page.wait_for_selector("#run-shares .barlayer .point")
        page.locator("#theme-toggle").click()
        expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "light")
        assert problems.found == []
