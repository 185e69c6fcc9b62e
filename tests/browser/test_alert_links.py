"""Links of alerts in Chromium: each opens its run, its steps or minutes, and what it is about."""

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from longpole.conventions.metrics import METRICS
from longpole_server.alerts.catalogue import BUILT_IN_RULES
from support.dashboard_browser import PATIENCE_MS, FakeServer, Problems, open_page
from support.dashboard_fake_alarms import USER_FIGURES

pytestmark = pytest.mark.browser

RULES = {rule.rule_id: rule for rule in BUILT_IN_RULES}
USER_RULES = [f"user.{figure.replace('/', '-')}" for figure in USER_FIGURES]
STEP_CHARTS = ("run-health", "run-shares", "run-throughput", "run-mfu")
TIME_CHARTS = ("run-gpus", "run-engines")
IN_VIEW = """name => {
  const place = document.getElementById(name);
  const box = place && place.getBoundingClientRect();
  return box && box.height > 0 && box.top < window.innerHeight && box.bottom > 0;
}"""
# Whether a chart is drawn and shows a range; times are those of the page's zone.
SHOWN = """([name, first, last]) => {
  const plot = document.getElementById(name)?.querySelector(".js-plotly-plot");
  const range = plot?._fullLayout?.xaxis?.range;
  if (!range || !plot.data.length) return false;
  const [low, high] = range.map(at => isNaN(at) ? Date.parse(at.replace(" ", "T")) : Number(at));
  return low <= first && last <= high;
}"""


@pytest.fixture(scope="module")
def full() -> Iterator[FakeServer]:
    started = FakeServer("--each-rule")
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def reader(chromium: Browser) -> Iterator[tuple[Page, Problems]]:
    """One page for all links, as of somebody who opens one after the other."""
    with open_page(chromium, draws_all=False) as opened:
        yield opened


@pytest.mark.parametrize("rule_id", [*RULES, *USER_RULES])
def test_a_link_shows_what_the_alert_is_about(
    reader: tuple[Page, Problems], full: FakeServer, rule_id: str
) -> None:
    page, problems = reader
    link = full.list_links()[rule_id]
    page.goto(full.address + link)
    parts = urlsplit(link)
    if parts.fragment:
        page.wait_for_function(IN_VIEW, arg=parts.fragment, timeout=PATIENCE_MS)
    match parts.path:
        case "/run":
            expect_range(page, parts.fragment, parse_qs(parts.query))
        case "/cluster":
            expect(page.locator("#cluster-gpus-aside")).to_contain_text("of node-a1")
        case _:
            expect(page.locator(f"[id='{parts.fragment}']")).to_contain_text(RULES[rule_id].title)
    if parts.fragment == "run-health":
        expect_figure(page, rule_id)
    assert problems.found == []


def expect_range(page: Page, panel: str, query: dict[str, list[str]]) -> None:
    """The panel shows the steps or minutes that the link names."""
    if panel in TIME_CHARTS:
        # Its last minute lies ahead of what has happened.
        first_ms, last_ms = map(int, query["time"][0].split("-"))
        asked = [panel, last_ms - 300_000, last_ms - 120_000]
        assert last_ms - first_ms > 900_000
        page.wait_for_function(SHOWN, arg=asked, timeout=PATIENCE_MS)
    elif panel in STEP_CHARTS:
        asked = [panel, int(query["from"][0]), int(query["to"][0])]
        page.wait_for_function(SHOWN, arg=asked, timeout=PATIENCE_MS)
    else:
        assert panel == "run-now"


def expect_figure(page: Page, rule_id: str) -> None:
    """Training health draws a figure that the rule reads."""
    rule = RULES.get(rule_id)
    names = rule.detector.reads if rule is not None else (rule_id.removeprefix("user."),)
    if rule_id == "loss.nan":
        names = ("grad_norm",)
    labels = [METRICS[name].label if name in METRICS else name for name in names]
    captions = page.locator("#run-health .annotation-text")
    expect(captions.first).to_be_visible()
    assert set(captions.all_text_contents()) & set(labels)


def test_a_link_to_what_is_over_meanwhile_shows_it_all_the_same(
    page: Page, server: FakeServer
) -> None:
    page.goto(f"{server.address}/alerts?alert=alert-4#alert-alert-4")
    page.wait_for_function(IN_VIEW, arg="alert-alert-4", timeout=PATIENCE_MS)
    expect(page.locator("[id='alert-alert-4']")).to_contain_text("over")
