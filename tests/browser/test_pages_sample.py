"""The sample page in Chromium: where its time went, its group, and the way to and from its step."""

import re

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import sample_address, step_address
from support.dashboard_browser import FakeServer
from support.dashboard_fake_service import BARE_RUN, LIVE_RUN

pytestmark = pytest.mark.browser

SAMPLE = "0020-003-2"


def open_sample(page: Page, server: FakeServer, sample: str = SAMPLE) -> None:
    page.goto(server.address + sample_address(LIVE_RUN, sample))
    expect(page.locator("#samplepage-title h1")).to_contain_text(sample)
    page.wait_for_selector("#samplepage-lanes .barlayer .point")


def find_bar_of(sample: str, plot: str) -> str:
    """Return a script that says where on the page the generation of a sample is."""
    return (
        f"(() => {{ const gd = {plot}; const y = gd._fullLayout.yaxis, x = gd._fullLayout.xaxis;"
        f" const row = gd.layout.yaxis.tickvals[gd.layout.yaxis.ticktext.indexOf('{sample}')];"
        " const bar = gd.data.findLast(t => t.name === 'generate' && t.y.includes(row));"
        " const i = bar.y.indexOf(row); const box = gd.getBoundingClientRect();"
        " return [box.left + x._offset + x.l2p(bar.base[i] + bar.x[i] / 2),"
        " box.top + y._offset + y.l2p(row)]; })()"
    )


def find_resting_bar(page: Page, sample: str, plot: str) -> tuple[float, float]:
    """Return where a bar is once nothing above it grows any more: a click goes there."""
    at: tuple[float, float] | None = None
    while True:
        before, at = at, page.evaluate(find_bar_of(sample, plot))
        if at is not None and at == before:
            return at
        page.wait_for_timeout(300)


def test_a_sample_says_where_its_time_went(page: Page, server: FakeServer) -> None:
    open_sample(page, server)
    expect(page.locator("#samplepage-summary h2")).to_contain_text("Generation takes")
    expect(page.locator("#samplepage-summary")).to_contain_text("of 8 in its group")
    expect(page.locator("#samplepage-summary")).to_contain_text("paused")
    expect(page.locator("#samplepage-facts")).to_contain_text("policy version")
    expect(page.locator("#samplepage-parts tbody tr")).to_have_count(13)
    expect(page).to_have_title(re.compile(f"sample {SAMPLE}"))


def test_a_sample_leads_to_the_gpu_that_made_it(page: Page, server: FakeServer) -> None:
    open_sample(page, server)
    expect(page.locator("#samplepage-facts")).to_contain_text("prefill, decode")
    page.locator("#samplepage-facts a", has_text="GPU 4").click()
    page.wait_for_url(re.compile(r"/cluster\?node=node-a1&gpu=GPU-"))
    page.wait_for_selector("#cluster-gpu .main-svg")


def test_its_step_leads_there_and_back(page: Page, server: FakeServer) -> None:
    open_sample(page, server)
    page.locator("#samplepage-step").click()
    expect(page.locator("#step-title h1")).to_have_text("Step 20")
    expect(page.locator("#sample-body")).to_contain_text(SAMPLE)
    page.locator("#sample-open").click()
    expect(page.locator("#samplepage-title h1")).to_contain_text(SAMPLE)
    page.go_back()
    expect(page.locator("#step-title h1")).to_have_text("Step 20")


def test_a_row_of_the_step_leads_to_its_sample(page: Page, server: FakeServer) -> None:
    page.goto(server.address + step_address(LIVE_RUN, 20))
    link = page.locator("#step-samples .ag-center-cols-container .ag-row a").nth(1)
    expect(link).to_have_text(re.compile("0020-"))
    sample = link.text_content() or ""
    link.click()
    expect(page.locator("#samplepage-title h1")).to_contain_text(sample)
    page.wait_for_url(lambda url: url.endswith(sample_address(LIVE_RUN, sample)))


def test_a_bar_and_a_row_of_the_group_lead_to_that_sample(page: Page, server: FakeServer) -> None:
    open_sample(page, server)
    page.locator("#samplepage-siblings a", has_text="0020-003-6").click()
    expect(page.locator("#samplepage-title h1")).to_contain_text("0020-003-6")
    expect(page.locator("#samplepage-siblings .lp-current")).to_contain_text("0020-003-6")
    plot = "document.querySelector('#samplepage-lanes .js-plotly-plot')"
    page.wait_for_function(f"{plot}.data.at(-1).textfont.color[0] !== undefined")
    # The bar of the last of the group to end is this one; the one below it is another's.
    rows = page.evaluate(f"{plot}.layout.yaxis.ticktext")
    assert any("<b>0020-003-6</b>" in row for row in rows)
    other = next(row for row in reversed(rows) if row.startswith("0020-003"))
    page.mouse.click(*find_resting_bar(page, other, plot))
    expect(page.locator("#samplepage-title h1")).to_contain_text(other)


def test_a_click_belongs_to_the_bar_that_was_pressed_though_the_page_moves(
    page: Page, server: FakeServer
) -> None:
    open_sample(page, server)
    plot = "document.querySelector('#samplepage-lanes .js-plotly-plot')"
    page.locator("#samplepage-lanes").scroll_into_view_if_needed()
    page.mouse.move(*find_resting_bar(page, "0020-003-5", plot))
    page.wait_for_function(f"{plot}._hoverdata?.some(one => one.customdata[2] === '0020-003-5')")
    page.mouse.down()
    page.evaluate("document.querySelector('#samplepage-title').style.marginTop = '90px'")
    page.mouse.up()
    expect(page.locator("#samplepage-title h1")).to_contain_text("0020-003-5")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/trajectory", "names no sample"),
        (sample_address(LIVE_RUN, "0020-999-9"), "has no sample"),
        (sample_address("no/such", "0020-003-2"), "There is no run"),
        (sample_address(BARE_RUN, "0005-001-1"), "has no sample"),
    ],
)
def test_addresses_that_lead_nowhere_say_so(
    page: Page, server: FakeServer, path: str, words: str
) -> None:
    page.goto(server.address + path)
    expect(page.locator("#page")).to_contain_text(words)
