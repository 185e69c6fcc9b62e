"""Links of alerts in Chromium: each opens its run, its steps, and the panel it is about."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.events import make_link
from support.alert_events import make_event
from support.dashboard_browser import PATIENCE_MS, FakeServer
from support.dashboard_fake_service import LIVE_RUN

pytestmark = pytest.mark.browser

PANELS = sorted({(rule.panel, rule.rule_id) for rule in BUILT_IN_RULES}, key=lambda each: each[0])
# One rule of each panel of the run page.
RULES = {panel: rule for panel, rule in reversed(PANELS) if panel.startswith("run-")}
IN_VIEW = """name => {
  const place = document.getElementById(name);
  const box = place && place.getBoundingClientRect();
  return box && box.height > 0 && box.top < window.innerHeight && box.bottom > 0;
}"""


@pytest.mark.parametrize("panel", sorted(RULES))
def test_a_link_shows_the_panel_that_the_alert_is_about(
    page: Page, server: FakeServer, panel: str
) -> None:
    link = make_link(make_event(rule=RULES[panel], run_id=LIVE_RUN))
    assert urlsplit(link).fragment == panel
    page.goto(server.address + link)
    page.wait_for_function(IN_VIEW, arg=panel, timeout=PATIENCE_MS)
