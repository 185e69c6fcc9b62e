"""Every page draws itself with the scripts that its policy lets run, and tries no other."""

from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from support.dashboard_browser import FakeServer, open_page

pytestmark = pytest.mark.browser

RUN = quote("math/grpo-qwen3-8b", safe="")
# A plot or a table that only scripts make.
PAGES = {
    "/": ".ag-row",
    f"/run?id={RUN}": ".js-plotly-plot .main-svg",
    f"/step?run={RUN}&step=20": ".js-plotly-plot .main-svg",
    f"/compare?a={RUN}&b={RUN}": "h1, h2",
    "/cluster": ".js-plotly-plot .main-svg",
    "/alerts": "[role=tab], .ag-row, table",
}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_needs_no_script_but_its_own(
    chromium: Browser, server: FakeServer, path: str
) -> None:
    with open_page(chromium, bypass_csp=False) as (page, problems):
        page.goto(f"{server.address}{path}")
        expect(page.locator(PAGES[path]).first).to_be_visible()
        assert problems.found == []
