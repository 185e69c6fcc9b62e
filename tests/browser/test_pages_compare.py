"""The compare page in Chromium: how one gets there, and what can be changed on it."""

import re

import pytest
from playwright.sync_api import Page, expect

from longpole_dashboards.addresses import compare_address, run_address
from support.dashboard_browser import FakeServer
from support.dashboard_fake_service import ASYNC_RUN, BARE_RUN, BASELINE_RUN, LIVE_RUN

pytestmark = pytest.mark.browser


def open_comparison(page: Page, server: FakeServer, address: str) -> None:
    page.goto(server.address + address)
    page.wait_for_selector("#compare-waterfall .barlayer .point")
    page.wait_for_selector("#compare-table .lp-total")


def test_two_runs_of_the_list_are_compared(page: Page, server: FakeServer) -> None:
    page.goto(server.address)
    button = page.locator("#runs-compare")
    expect(button).to_be_hidden()
    for name in ("grpo-qwen3-8b-math", "grpo-qwen3-8b-baseline"):
        row = page.locator("#runs-grid .ag-center-cols-container .ag-row", has_text=name)
        index = row.get_attribute("row-index")
        page.locator(f"#runs-grid .ag-row[row-index='{index}'] input[type=checkbox]").check()
    assert "/run" not in page.url
    expect(button).to_have_text("Compare the two")
    button.click()
    page.wait_for_selector("#compare-waterfall .barlayer .point")
    page.wait_for_url(lambda url: url.endswith(compare_address(LIVE_RUN, BASELINE_RUN)))
    expect(page.locator("#compare-before")).to_contain_text("grpo-qwen3-8b-baseline")
    expect(page.locator("#compare-headline")).to_contain_text("faster")
    expect(page.locator("#compare-config")).to_contain_text("rollout.gpu_memory_utilization")


def test_a_run_is_compared_with_its_first_steps(page: Page, server: FakeServer) -> None:
    page.goto(server.address + run_address(LIVE_RUN))
    page.locator("#run-compare").click()
    page.wait_for_selector("#compare-waterfall .barlayer .point")
    page.wait_for_url(lambda url: "b_from=1" in url)
    expect(page.locator("#compare-config")).to_contain_text("No setting differs")


def test_the_factors_of_the_parts_make_the_whole(page: Page, server: FakeServer) -> None:
    open_comparison(page, server, compare_address(LIVE_RUN, BASELINE_RUN))
    cells = page.locator("#compare-table tbody tr td:last-child").all_inner_texts()
    *parts, whole = [float(cell) for cell in cells]
    product = 1.0
    for part in parts:
        product *= part
    assert abs(product - whole) < 0.002
    ends = page.evaluate(
        "(() => { const [bars] = document.querySelector('#compare-waterfall .js-plotly-plot').data;"
        " return bars.x.length })()"
    )
    assert ends >= 3


def test_windows_are_typed_and_part_of_the_address(page: Page, server: FakeServer) -> None:
    open_comparison(page, server, compare_address(LIVE_RUN, LIVE_RUN))
    page.locator("#compare-with-from").fill("3")
    page.locator("#compare-with-to").fill("8")
    page.locator("#compare-from").fill("20")
    page.wait_for_url(re.compile(r"(?=.*b_from=3)(?=.*b_to=8)(?=.*[?&]from=20)"))
    expect(page.locator("#compare-before")).to_contain_text("steps 3–8")
    expect(page.locator("#compare-after")).to_contain_text("steps 20–30")
    page.get_by_role("link", name="swap").click()
    expect(page.locator("#compare-before")).to_contain_text("steps 20–30")
    expect(page.locator("#compare-with-from")).to_have_value("20")


def test_another_run_is_chosen(page: Page, server: FakeServer) -> None:
    open_comparison(page, server, compare_address(LIVE_RUN, LIVE_RUN))
    page.locator("#compare-with").click()
    page.get_by_role("option", name="grpo-qwen3-8b-baseline").click()
    expect(page.locator("#compare-before")).to_contain_text("grpo-qwen3-8b-baseline")
    page.wait_for_url(lambda url: "b=math%2Fgrpo-qwen3-8b-baseline" in url)


def test_without_a_run_the_page_says_what_to_do(page: Page, server: FakeServer) -> None:
    page.goto(server.address + "/compare")
    expect(page.locator("#compare-headline")).to_contain_text("Choose what to compare")
    expect(page.locator("#compare-body")).to_be_hidden()


@pytest.mark.parametrize(("run", "other"), [(BARE_RUN, LIVE_RUN), (ASYNC_RUN, BARE_RUN)])
def test_runs_with_little_data_say_what_is_missing(
    page: Page, server: FakeServer, run: str, other: str
) -> None:
    open_comparison(page, server, compare_address(run, other))
    expect(page.locator("#compare-spread")).to_contain_text("Not reported")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (compare_address("no/such", LIVE_RUN), "There is no run"),
        (compare_address(LIVE_RUN, LIVE_RUN, (900, 950), (1, 5)), "not known"),
    ],
)
def test_windows_without_steps_say_so(
    page: Page, server: FakeServer, address: str, words: str
) -> None:
    page.goto(server.address + address)
    expect(page.locator("#page")).to_contain_text(words)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("&from=6&to=9&b_from=2&b_to=5", "Both sides are of the same run, grpo-qwen3-8b-math."),
        ("&from=4&to=9&b_from=2&b_to=5", "steps 4–5 are in both"),
        ("&from=2&to=5&b_from=2&b_to=5", "the same steps of the same run: nothing can differ"),
    ],
)
def test_a_run_against_itself_is_told_and_asked_for_once(
    page: Page, server: FakeServer, more: str, said: str
) -> None:
    asked = list[str]()
    page.on("request", lambda each: asked.append(each.url) if "_dash-update" in each.url else None)
    address = f"{server.address}{compare_address(LIVE_RUN, LIVE_RUN)}{more}"
    page.goto(address)
    page.wait_for_selector("#compare-waterfall .main-svg")
    expect(page.locator("#compare-headline")).to_contain_text(said)
    # Were each answer another question, there would be dozens by now.
    page.wait_for_timeout(2_000)
    assert len(asked) <= 3
    assert page.url == address
