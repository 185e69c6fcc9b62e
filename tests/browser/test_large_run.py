"""A very large run in Chromium: 10,000 steps, 1,024 GPUs, 8,192 samples, 20,000 spans."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import run_address, step_address
from support.dashboard_browser import FakeServer
from support.dashboard_large_service import LARGE_RUN, NUM_STEPS

pytestmark = pytest.mark.browser

NUM_SHAPES = "document.querySelectorAll('.js-plotly-plot path, .js-plotly-plot rect').length"
NUM_GL = "document.querySelectorAll('.gl-canvas').length"
# Above this a browser needs seconds for a page.
MAX_SHAPES = 15_000


@pytest.fixture(scope="module")
def large() -> Iterator[FakeServer]:
    server = FakeServer("--large")
    server.start()
    yield server
    server.stop()


def test_all_steps_of_the_run_are_drawn_and_zoomed_into(page: Page, large: FakeServer) -> None:
    page.goto(large.address + run_address(LARGE_RUN) + "&steps=all")
    page.wait_for_selector("#run-shares .scatterlayer .js-fill")
    page.wait_for_selector("#run-gpus .heatmaplayer image")
    bars = "document.querySelector('#run-shares .js-plotly-plot').data[0].customdata"
    assert 100 < page.evaluate(f"{bars}.length") <= 250
    assert page.evaluate(NUM_SHAPES) < MAX_SHAPES
    assert page.evaluate(NUM_GL) <= 3
    # More GPUs than rows: a row is several, and the one that stands still is seen.
    rows = (
        "document.querySelector('#run-gpus .js-plotly-plot').calcdata.flat().find(one => one.z).z"
    )
    assert page.evaluate(f"{rows}.length") <= 256
    least = f"{rows}.flat().reduce((least, value) => value < least ? value : least, 100)"
    assert page.evaluate(least) == 0
    expect(page.locator("#run-gpus-absent")).to_contain_text("1,024 GPUs: a row is 4 neighbours")
    # A part of it is read anew, every step by itself.
    page.goto(large.address + run_address(LARGE_RUN) + "&steps=all&zoom=5000-5040")
    page.wait_for_selector("#run-shares .barlayer .point")
    page.wait_for_function(f"{bars}?.length <= 250 && {bars}.some(one => one[0] === 5017)")


def test_a_click_on_all_steps_opens_the_longest_of_those_there(
    page: Page, large: FakeServer
) -> None:
    page.goto(large.address + run_address(LARGE_RUN) + "&steps=all")
    page.wait_for_selector("#run-shares .scatterlayer .js-fill")
    box = page.locator("#run-shares .nsewdrag").first.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.7)
    page.mouse.move(*middle)
    said = page.locator("#run-shares .hoverlayer .legend")
    expect(said).to_contain_text("around step")
    expect(said).to_contain_text(re.compile(r"steps \d+–\d+, mean"))
    expect(said).to_contain_text("most of it more")
    page.mouse.click(*middle)
    page.wait_for_url(re.compile(r"/step\?run=.*&step=\d+"))
    step = int(page.url.rpartition("=")[2])
    assert NUM_STEPS * 0.45 < step < NUM_STEPS * 0.55


def test_a_step_with_thousands_of_samples_and_spans(page: Page, large: FakeServer) -> None:
    page.goto(large.address + step_address(LARGE_RUN, NUM_STEPS - 2))
    page.wait_for_selector("#step-timeline .heatmaplayer image")
    page.wait_for_selector("#step-samples .lp-cell-parts")
    assert page.evaluate(NUM_SHAPES) < MAX_SHAPES
    labels = page.locator("#step-timeline g[class$='tick'] text")
    expect(labels.filter(has_text="1,024 processes")).to_have_count(1)


def test_every_gpu_of_the_cluster_is_on_the_map(page: Page, large: FakeServer) -> None:
    page.goto(f"{large.address}/cluster")
    page.wait_for_selector("#cluster-map .heatmaplayer image")
    expect(page.locator("#cluster-stats")).to_contain_text("1024")
    assert page.evaluate(NUM_SHAPES) < MAX_SHAPES
