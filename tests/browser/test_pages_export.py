"""Saving and sharing in Chromium: tables, charts, addresses; keyboard and theme on every page."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportMissingImports=false

import csv
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from longpole_dashboards.addresses import (
    compare_address,
    run_address,
    sample_address,
    step_address,
)
from support.dashboard_browser import FakeServer, open_page
from support.dashboard_fake_service import BASELINE_RUN, LIVE_RUN

pytestmark = pytest.mark.browser

SAMPLE = sample_address(LIVE_RUN, "0020-003-2")
COMPARISON = compare_address(LIVE_RUN, BASELINE_RUN)


def read_csv(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize(
    ("address", "target", "heading", "num_rows"),
    [
        (SAMPLE, "samplepage-siblings", "sample", 9),
        (COMPARISON, "compare-table", "part", 15),
        ("/alerts", "alerts-history", "when", 11),
        ("/alerts", "alerts-rules", "fires when", 36),
        ("/alerts", "alerts-silences", "until", 2),
        ("/alerts", "alerts-channels", "failing", 3),
        (run_address(LIVE_RUN), "run-evidence", "measured", 7),
        (SAMPLE, "samplepage-facts", "input tokens", 13),
        ("/cluster", "cluster-nodes", "Node", 8),
        ("/cluster", "cluster-storage", "Table", 5),
        ("/cluster", "cluster-paces-0-gpus", "GPU", 4),
        ("/cluster", "cluster-paces-0-replicas", "Replica", 4),
        (step_address(LIVE_RUN, 20), "step-paces-gpus", "GPU", 4),
        (step_address(LIVE_RUN, 20), "step-paces-replicas", "Replica", 4),
        (step_address(LIVE_RUN, 20), "step-samples", "Sample", 101),
        ("/", "runs-grid", "Run", 7),
    ],
)
def test_tables_are_saved_as_csv(
    page: Page,
    server: FakeServer,
    tmp_path: Path,
    address: str,
    target: str,
    heading: str,
    num_rows: int,
) -> None:
    page.goto(server.address + address)
    filled = "td, .ag-center-cols-container .ag-cell, .lp-facts dd, [data-cells]"
    page.locator(f"#{target} :is({filled})").first.wait_for(state="attached")
    with page.expect_download() as download:
        page.locator(f"[data-csv='{target}']").click()
    saved = tmp_path / "saved.csv"
    download.value.save_as(saved)
    assert download.value.suggested_filename.endswith(".csv")
    rows = read_csv(saved)
    assert heading in rows[0]
    assert len(rows) == num_rows
    assert len({len(row) for row in rows}) == 1


# What a sender chose, and how it stands in a saved table.
TEXTS = {
    "=1+1": "'=1+1",
    "-2+3+cmd|'/C calc'!A0": "'-2+3+cmd|'/C calc'!A0",
    "\t@SUM(A1)": "'\t@SUM(A1)",
    "-3.2 s": "-3.2 s",
    "a=b": "a=b",
}
_WRITE_INTO_ROWS = """async (texts) => {
  const api = await window.dash_ag_grid.getApiAsync("runs-grid");
  const fields = api.getAllDisplayedColumns().map((each) => each.getColDef().field);
  const field = fields.find((each) => each);
  texts.forEach((text, at) => {
    const row = api.getDisplayedRowAtIndex(at);
    row.updateData({ ...row.data, [field]: text });
  });
}"""


def test_what_a_sender_chose_is_no_formula_in_a_saved_table(
    page: Page, server: FakeServer, tmp_path: Path
) -> None:
    page.goto(server.address + "/")
    page.wait_for_selector("#runs-grid .ag-center-cols-container .ag-cell")
    page.evaluate(_WRITE_INTO_ROWS, list(TEXTS))
    with page.expect_download() as download:
        page.locator("[data-csv='runs-grid']").click()
    saved = tmp_path / "saved.csv"
    download.value.save_as(saved)
    cells = {cell for row in read_csv(saved) for cell in row}
    assert cells >= set(TEXTS.values())
    assert not cells & (set(TEXTS) - set(TEXTS.values()))


def test_nor_is_it_in_one_of_plain_elements(page: Page, server: FakeServer, tmp_path: Path) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20))
    page.wait_for_selector("#step-paces-replicas td")
    page.evaluate(
        """(texts) => {
          const cells = document.querySelectorAll("#step-paces-replicas td");
          texts.forEach((text, at) => { cells[at].innerText = text; });
          cells[texts.length].dataset.value = texts[0];
        }""",
        list(TEXTS),
    )
    with page.expect_download() as download:
        page.locator("[data-csv='step-paces-replicas']").click()
    saved = tmp_path / "saved.csv"
    download.value.save_as(saved)
    cells = [cell for row in read_csv(saved) for cell in row]
    # Blanks at the ends of a plain cell are the page's.
    wanted = {"'@SUM(A1)" if text.startswith("'\t") else text for text in TEXTS.values()}
    assert set(cells) >= wanted
    assert cells.count("'=1+1") == 2
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+"))]


def test_nor_is_it_in_one_of_entries(page: Page, server: FakeServer, tmp_path: Path) -> None:
    page.goto(server.address + "/alerts")
    page.locator("#alerts-silences [data-cells]").first.wait_for(state="attached")
    page.evaluate(
        """(texts) => {
          const entry = document.querySelector("#alerts-silences [data-cells]");
          entry.dataset.cells = JSON.stringify([...texts, ""]);
        }""",
        list(TEXTS),
    )
    with page.expect_download() as download:
        page.locator("[data-csv='alerts-silences']").click()
    saved = tmp_path / "saved.csv"
    download.value.save_as(saved)
    _, cells = read_csv(saved)
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "-2"))]


@pytest.mark.parametrize(
    ("address", "graph"),
    [(COMPARISON, "compare-waterfall"), (SAMPLE, "samplepage-lanes")],
)
def test_charts_are_saved_as_svg(
    page: Page, server: FakeServer, tmp_path: Path, address: str, graph: str
) -> None:
    page.goto(server.address + address)
    page.wait_for_selector(f"#{graph} .barlayer .point")
    button = page.locator(f"[data-svg='{graph}']")
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    saved = tmp_path / "saved.svg"
    download.value.save_as(saved)
    assert download.value.suggested_filename.endswith(".svg")
    text = saved.read_text()
    assert text.startswith("<svg")
    assert "rgb(18, 21, 27)" in text


# What a panel with a chart must offer, as `kind: id of the chart`.
_IMAGES = """() => [...document.querySelectorAll(".lp-panel .dash-graph")].flatMap(({ id }) =>
  ["png", "svg"].map((kind) => [kind, id]))"""


@pytest.mark.parametrize(
    ("address", "drawn", "num_charts"),
    [
        (run_address(LIVE_RUN), "#run-energy-steps .barlayer .point", 7),
        (step_address(LIVE_RUN, 20), "#step-timeline .heatmaplayer image", 3),
        (SAMPLE, "#samplepage-lanes .barlayer .point", 1),
        (COMPARISON, "#compare-waterfall .barlayer .point", 2),
        ("/cluster", "#cluster-heat .heatmaplayer image", 3),
    ],
)
def test_every_chart_is_saved_as_an_image(
    page: Page, server: FakeServer, tmp_path: Path, address: str, drawn: str, num_charts: int
) -> None:
    page.goto(server.address + address)
    page.wait_for_selector(drawn)
    wanted: list[tuple[str, str]] = page.evaluate(_IMAGES)
    assert len(wanted) == 2 * num_charts
    for kind, chart in wanted:
        button = page.locator(f"[data-{kind}='{chart}']")
        expect(button).to_have_count(1)
        if not button.is_visible():
            # Nothing is shown there: no GPU was chosen.
            continue
        with page.expect_download() as download:
            button.focus()
            page.keyboard.press("Enter")
        saved = tmp_path / f"{chart}.{kind}"
        download.value.save_as(saved)
        assert download.value.suggested_filename.endswith(f".{kind}")
        start = {"png": b"\x89PNG", "svg": b"<svg"}[kind]
        assert saved.read_bytes().startswith(start), chart


def test_a_chart_s_own_button_saves_a_picture_that_stands_by_itself(
    page: Page, server: FakeServer, tmp_path: Path
) -> None:
    page.goto(server.address + SAMPLE)
    page.wait_for_selector("#samplepage-lanes .barlayer .point")
    page.locator("#samplepage-lanes").hover()
    with page.expect_download() as download:
        page.locator("#samplepage-lanes .modebar-btn[data-title^='Download']").click()
    saved = tmp_path / "saved.png"
    download.value.save_as(saved)
    assert download.value.suggested_filename == "turn-by-turn-beside-its-group.png"
    with Image.open(saved) as picture:
        assert picture.width > 2000
        assert picture.convert("RGBA").getpixel((1, 1)) == (18, 21, 27, 255)


def test_the_address_of_a_view_is_copied(chromium: Browser, server: FakeServer) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    with open_page(chromium, permissions=permissions) as (page, problems):
        page.goto(server.address + COMPARISON)
        page.locator("#copy-link").click()
        expect(page.locator("#copy-link")).to_have_attribute("data-copied", "copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        assert problems.found == []


@pytest.mark.parametrize(
    ("address", "drawn"),
    [
        (SAMPLE, "#samplepage-siblings td"),
        (COMPARISON, "#compare-config td"),
        ("/cluster", "#cluster-heat .heatmaplayer image"),
        ("/alerts", "#alerts-history td"),
    ],
)
def test_every_page_fits_and_has_both_themes(
    page: Page, server: FakeServer, address: str, drawn: str
) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(server.address + address)
    page.wait_for_selector(drawn)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    ground = "getComputedStyle(document.querySelector('.lp-panel')).backgroundColor"
    dark = page.evaluate(ground)
    page.locator("#theme-toggle").click()
    page.wait_for_function(f"{ground} !== '{dark}'")


@pytest.mark.parametrize(
    "address",
    [
        "/",
        run_address(LIVE_RUN),
        step_address(LIVE_RUN, 20),
        SAMPLE,
        COMPARISON,
        "/cluster",
        "/alerts",
    ],
)
def test_the_keyboard_reaches_the_navigation_and_shows_where_it_is(
    page: Page, server: FakeServer, address: str
) -> None:
    page.goto(server.address + address)
    page.wait_for_selector(".lp-page")
    reached = list[str]()
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert {"nav-runs", "nav-cluster", "nav-alerts", "copy-link"} <= set(reached)
