"""Every page, in both themes, by the rules of axe-core: nothing serious, nothing critical."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
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

# Address, and what stands there last.
PAGES = {
    "runs": ("/", "#runs-grid .lp-cell-run"),
    "run": (run_address(LIVE_RUN), "#run-health .xtick text", "#run-energy-stages td"),
    "step": (
        step_address(LIVE_RUN, 20),
        "#step-samples .lp-cell-parts",
        "#step-paces td",
        "#step-energy td",
    ),
    "sample": (sample_address(LIVE_RUN, "0020-003-2"), "#samplepage-siblings td"),
    "compare": (compare_address(LIVE_RUN, BASELINE_RUN), "#compare-config td"),
    "cluster": (
        "/cluster",
        "#cluster-heat .heatmaplayer image",
        "#cluster-paces td",
        "#cluster-processes td",
        "#cluster-storage td",
    ),
    "alerts": ("/alerts", "#alerts-history td"),
}


def describe(found: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong, and the first elements of which that is true."""
    return [
        f"{rule['id']} ({rule['impact']}, {len(rule['nodes'])}): "
        f"{[node['html'][:160] for node in rule['nodes'][:3]]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("name", PAGES)
def test_no_serious_barrier_and_nothing_against_the_policy(
    chromium: Browser, server: FakeServer, name: str
) -> None:
    with open_page(chromium, bypass_csp=False) as (page, problems):
        assert find_barriers(page, server, name) == []
        assert problems.found == []


def find_barriers(page: Page, server: FakeServer, name: str) -> list[str]:
    address, *drawn = PAGES[name]
    page.goto(server.address + address)
    for part in drawn:
        page.wait_for_selector(part)
    problems = list[str]()
    for _ in range(2):
        theme = page.locator("html").get_attribute("data-mantine-color-scheme")
        results = Axe().run(page)
        problems += [f"{theme}: {words}" for words in describe(results.response["violations"])]
        page.locator("#theme-toggle").click()
        expect(page.locator("html")).not_to_have_attribute("data-mantine-color-scheme", theme or "")
        page.mouse.move(0, 0)
    return problems
