"""The alerts page in Chromium: what fires, what people do about it, and why rules are quiet."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import alerts_address
from support.dashboard_browser import FakeServer
from support.dashboard_fake_service import HANGING_RUN, LIVE_RUN

pytestmark = pytest.mark.browser

CARDS = "#alerts-cards .lp-alert"


@pytest.fixture
def own() -> Iterator[FakeServer]:
    """A server that a test may change."""
    server = FakeServer()
    server.start()
    yield server
    server.stop()


def open_alerts(page: Page, server: FakeServer, address: str = "/alerts") -> None:
    page.goto(server.address + address)
    page.wait_for_selector("#alerts-history tbody tr")


def let_the_rules_be_drawn_anew(page: Page, server: FakeServer) -> None:
    """Let time pass, and wait until the panel of rules consists of new elements."""
    page.evaluate("window.drawnBefore = document.querySelector('#alerts-rules .lp-rule')")
    server.finish_step(LIVE_RUN)
    page.wait_for_function("!window.drawnBefore.isConnected")


def test_what_fires_says_what_it_means(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    expect(page.locator(CARDS)).to_have_count(4)
    hang = page.locator(CARDS, has_text="run.hang")
    expect(hang).to_contain_text("9 min 37 s")
    expect(hang).to_contain_text("likely cause")
    expect(hang).to_contain_text("look first at")
    expect(page.locator("#alerts-counts")).to_contain_text("3 firing")
    expect(page.locator("#alerts-badge")).to_have_text("3")
    expect(page).to_have_title("(3) Alerts · Longpole")


def test_the_badge_is_on_every_page_and_leads_there(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    expect(page.locator("#alerts-badge")).to_have_text("3")
    expect(page.locator("#alerts-badge")).to_have_attribute("data-severity", "critical")
    page.locator("#nav-alerts").click()
    expect(page.locator(CARDS)).to_have_count(4)


def test_an_alert_leads_to_the_steps_of_its_run(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    card = page.locator(CARDS, has_text="gpu.throttled")
    card.get_by_role("link", name="grpo-qwen3-8b-math").click()
    expect(page.locator("#run-alerts")).to_contain_text("GPU throttled")
    page.wait_for_selector("#run-shares .shapelayer path", state="attached")
    plot = "document.querySelector('#run-shares .js-plotly-plot').layout"
    page.wait_for_function(f"{plot}.annotations.some(one => one.text === '◆')")
    page.go_back()
    expect(page.locator(CARDS)).to_have_count(4)


def test_states_and_runs_are_part_of_the_address(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    page.locator("#alerts-state").get_by_text("over", exact=True).click()
    page.wait_for_url(re.compile("state=resolved"))
    expect(page.locator(CARDS)).to_have_count(1)
    expect(page.locator(CARDS)).to_contain_text("lasted")
    page.goto(server.address + alerts_address(HANGING_RUN))
    expect(page.locator(CARDS)).to_have_count(1)
    page.get_by_role("link", name="show all runs").click()
    expect(page.locator(CARDS)).to_have_count(4)


def test_an_alert_is_acknowledged_by_name(page: Page, own: FakeServer) -> None:
    open_alerts(page, own)
    page.locator(CARDS, has_text="run.hang").get_by_role("button", name="Acknowledge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("update weights of step 9")
    expect(page.locator("#alerts-silence-only")).to_be_hidden()
    page.locator("#alerts-submit").click()
    expect(page.locator("#alerts-refused")).to_contain_text("Say who you are")
    page.locator("#alerts-author").fill("kim")
    page.locator("#alerts-comment").fill("looking at rank 3")
    page.locator("#alerts-submit").click()
    expect(dialog).to_be_hidden()
    card = page.locator(CARDS, has_text="run.hang")
    expect(card).to_contain_text("kim looks after it")
    expect(card).to_contain_text("looking at rank 3")
    expect(card.get_by_role("button", name="Acknowledge")).to_have_count(0)
    card.get_by_role("button", name="Comment").click()
    page.locator("#alerts-comment").fill("rank 3 is fine again")
    page.locator("#alerts-submit").click()
    expect(card).to_contain_text("rank 3 is fine again")


def test_silences_are_made_and_lifted(page: Page, own: FakeServer) -> None:
    open_alerts(page, own)
    page.locator(CARDS, has_text="node.silent").get_by_role("button", name="Silence").click()
    page.locator("#alerts-author").fill("kim")
    page.locator("#alerts-duration").get_by_text("4 h").click()
    expect(page.locator("#alerts-until")).to_contain_text("until")
    page.locator("#alerts-submit").click()
    card = page.locator(CARDS, has_text="node.silent")
    expect(card).to_contain_text("silenced by kim until")
    entry = page.locator("#alerts-silences .lp-entry", has_text="node.silent")
    expect(entry).to_contain_text("on node-e1")
    entry.get_by_role("button", name="Lift").click()
    expect(entry).to_have_count(0)
    expect(card).not_to_contain_text("silenced by")
    # The name is remembered; cancelling changes nothing.
    card.get_by_role("button", name="Silence").click()
    expect(page.locator("#alerts-author")).to_have_value("kim")
    page.locator("#alerts-cancel").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#alerts-silences .lp-entry")).to_have_count(1)


def test_what_one_does_others_see(page: Page, own: FakeServer) -> None:
    open_alerts(page, own)
    other = page.context.new_page()
    other.goto(f"{own.address}/alerts")
    other.wait_for_selector(CARDS)
    page.locator(CARDS, has_text="run.hang").get_by_role("button", name="Acknowledge").click()
    page.locator("#alerts-author").fill("kim")
    page.locator("#alerts-submit").click()
    expect(other.locator(CARDS, has_text="run.hang")).to_contain_text("kim looks after it")
    expect(other.locator("#alerts-badge")).to_have_attribute("data-severity", "critical")


def test_rules_say_why_they_are_quiet(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    page.locator("#alerts-rules-state").get_by_text("quiet", exact=True).click()
    page.wait_for_url(re.compile("rules=quiet"))
    rule = page.locator("#rule-clip-high")
    expect(rule).to_contain_text("quiet because 0.12 is within 0.3")
    rule.locator("summary").click()
    expect(rule).to_contain_text("fires when")
    expect(rule.locator("tbody tr")).to_contain_text("grpo-qwen3-8b-math")
    expect(page.locator("#alerts-rules .lp-rule")).to_have_count(4)


def test_an_open_rule_stays_open_while_data_comes(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    rule = page.locator("#rule-clip-high")
    rule.locator("summary").click()
    expect(rule).to_have_attribute("open", "")
    let_the_rules_be_drawn_anew(page, server)
    expect(rule).to_have_attribute("open", "")


def test_the_keyboard_stays_where_it_is_while_data_comes(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    page.locator("#rule-clip-high summary").focus()
    let_the_rules_be_drawn_anew(page, server)
    assert page.evaluate("document.activeElement.parentElement.id") == "rule-clip-high"
    page.keyboard.press("Enter")
    expect(page.locator("#rule-clip-high")).to_have_attribute("open", "")


def test_a_click_that_began_before_new_data_came_counts(page: Page, own: FakeServer) -> None:
    open_alerts(page, own)
    rule = page.locator("#rule-clip-high")
    rule.locator("summary").click()
    silence = rule.get_by_role("button", name="Silence this rule")
    silence.hover()
    page.mouse.down()
    let_the_rules_be_drawn_anew(page, own)
    page.mouse.up()
    expect(page.get_by_role("dialog")).to_contain_text("Clip fraction high")


def test_channels_say_how_deliveries_went_and_take_a_sample(page: Page, server: FakeServer) -> None:
    open_alerts(page, server)
    expect(page.locator("#alerts-channels")).to_contain_text("503 Service Unavailable")
    expect(page.locator("#alerts-channels")).to_contain_text("2 waiting")
    page.locator("#alerts-test").click()
    expect(page.locator("#alerts-tested")).to_contain_text("slack took the sample")


def test_a_calm_cluster_looks_calm(page: Page) -> None:
    empty = FakeServer("--empty")
    empty.start()
    try:
        page.goto(f"{empty.address}/alerts")
        expect(page.locator("#alerts-cards")).to_contain_text("Nothing fires")
        expect(page.locator("#alerts-channels")).to_contain_text("LONGPOLE_SLACK_WEBHOOK_URL")
        expect(page.locator("#alerts-badge")).to_be_empty()
        expect(page.locator("#alerts-test")).to_be_hidden()
    finally:
        empty.stop()


def test_alerts_are_readable_on_a_phone(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_alerts(page, server)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    button = page.locator(CARDS).first.get_by_role("button", name="Acknowledge")
    box = button.bounding_box()
    assert box is not None
    assert box["height"] >= 36


def test_a_rule_is_tried_saved_and_deleted(page: Page, own: FakeServer) -> None:
    open_alerts(page, own)
    page.locator("#alerts-rule-new").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("A rule of your own")
    page.locator("#alerts-rule-save").click()
    expect(page.locator("#alerts-rule-refused")).to_contain_text("metric must be a text")
    page.locator("#alerts-rule-metric").fill("step_duration_s")
    page.locator("#alerts-rule-threshold").fill("90")
    page.locator("#alerts-rule-title").fill("Steps take too long")
    page.locator("#alerts-rule-try").click()
    expect(page.locator("#alerts-rule-tried")).to_contain_text("It would")
    page.locator("#alerts-rule-save").click()
    expect(dialog).to_be_hidden()
    entry = page.locator("#alerts-rules .lp-rule", has_text="user.step-duration-s-above")
    expect(entry).to_contain_text("Steps take too long")
    entry.locator("summary").click()
    entry.get_by_role("button", name="Edit").click()
    expect(page.locator("#alerts-rule-metric")).to_have_value("step_duration_s")
    page.locator("#alerts-rule-threshold").fill("70")
    page.locator("#alerts-rule-try").click()
    expect(page.locator("#alerts-rule-tried")).to_contain_text("It would")
    page.locator("#alerts-rule-save").click()
    expect(dialog).to_be_hidden()
    expect(entry).to_have_count(1)
    expect(entry).to_contain_text("1 min 10 s")
    entry.get_by_role("button", name="Delete").click()
    expect(entry).to_have_count(0)
