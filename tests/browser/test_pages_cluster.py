"""The cluster page in Chromium: nodes and GPUs now, small and large."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import cluster_address
from support.dashboard_browser import FakeServer

pytestmark = pytest.mark.browser

NODES = "#cluster-nodes .ag-center-cols-container .ag-row"
GPUS = "#cluster-gpus .ag-center-cols-container .ag-row"


def open_cluster(page: Page, server: FakeServer, address: str = "/cluster") -> None:
    page.goto(server.address + address)
    page.wait_for_selector("#cluster-map .heatmaplayer image")
    page.wait_for_selector("#cluster-heat .heatmaplayer image")


@pytest.fixture
def large() -> Iterator[FakeServer]:
    server = FakeServer("--spare-nodes", "123")
    server.start()
    yield server
    server.stop()


def test_what_is_the_matter_is_seen_first(page: Page, server: FakeServer) -> None:
    open_cluster(page, server)
    expect(page.locator("#cluster-stats .lp-tile")).to_have_count(7)
    expect(page.locator("#cluster-stats")).to_contain_text("node-e1")
    expect(page.locator(NODES).first).to_contain_text("node-e1")
    expect(page.locator(NODES).first).to_contain_text("silent")
    expect(page.locator(GPUS).nth(8)).to_contain_text("throttled")
    expect(page.locator(GPUS).nth(8)).to_contain_text("hardware thermal")
    expect(page.locator("#cluster-gpus")).to_contain_text("estimated")


def test_a_node_is_chosen_by_row_and_by_cell_and_let_go(page: Page, server: FakeServer) -> None:
    open_cluster(page, server)
    page.locator(NODES, has_text="node-a1").locator(".ag-cell").first.click()
    page.wait_for_url(re.compile("node=node-a1"))
    expect(page.locator(GPUS)).to_have_count(8)
    expect(page.locator("#cluster-gpus-aside")).to_contain_text("of node-a1")
    page.get_by_role("link", name="show all").click()
    expect(page.locator("#cluster-gpus-aside")).to_contain_text("want a look first")
    page.locator("#cluster-map").scroll_into_view_if_needed()
    box = page.locator("#cluster-map .heatmaplayer image").bounding_box()
    assert box is not None
    # The second node of the first column, its first GPU: names take the first four cells.
    page.mouse.click(box["x"] + box["width"] * 4.5 / 26, box["y"] + box["height"] * 1.5 / 4)
    page.wait_for_url(re.compile("node=node-a2"))
    expect(page.locator("#cluster-gpus-aside")).to_contain_text("of node-a2")


def test_a_run_of_a_node_is_one_click_away(page: Page, server: FakeServer) -> None:
    open_cluster(page, server)
    page.locator(NODES, has_text="node-a1").get_by_role("link").click()
    expect(page.locator("#run-title h1")).to_have_text("grpo-qwen3-8b-math")


def test_what_the_map_shows_is_part_of_the_address(page: Page, server: FakeServer) -> None:
    open_cluster(page, server, cluster_address("node-b1"))
    page.locator("#cluster-map-field").get_by_text("run", exact=True).click()
    page.wait_for_url(re.compile("map=run"))
    expect(page.locator("#cluster-map-legend")).to_contain_text("ppo-llama-70b-code")
    page.wait_for_url(lambda url: "node=node-b1" in url)
    page.locator("#cluster-span").get_by_text("1 h").click()
    page.wait_for_url(re.compile("span=60"))


def test_a_thousand_gpus_are_drawn(page: Page, large: FakeServer) -> None:
    open_cluster(page, large)
    expect(page.locator("#cluster-stats .lp-tile").first).to_contain_text("1024")
    measured = page.evaluate(
        "document.querySelector('#cluster-map .js-plotly-plot').calcdata[0][0].z"
        ".reduce((count, row) => count + [...row].filter(Number.isFinite).length, 0)"
    )
    # All but those of the silent node.
    assert measured == 1016
    expect(page.locator("#cluster-gpus-aside")).to_contain_text("256 of 1024")
    expect(page.locator("#cluster-heat-aside")).to_contain_text("mean of a node")


def test_without_agents_the_page_says_what_is_missing(page: Page) -> None:
    empty = FakeServer("--empty")
    empty.start()
    try:
        page.goto(f"{empty.address}/cluster")
        expect(page.locator("#cluster-nodes-absent")).to_contain_text("a Longpole agent")
        expect(page.locator("#cluster-map")).to_contain_text("a Longpole agent")
    finally:
        empty.stop()
