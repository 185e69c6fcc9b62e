from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.dashboard_browser import PATIENCE_MS, FakeServer, launch_chromium, open_page

expect.set_options(timeout=PATIENCE_MS)


# Not for the whole session: an open Playwright keeps an event loop running in the main thread.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page that must not log an error, fail a request, or ask another host."""
    with open_page(chromium) as (opened, problems):
        yield opened
        found = list(problems.found)
    assert found == []


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    started = FakeServer()
    started.start()
    yield started
    started.stop()
