from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from support.dashboard_browser import (
    PATIENCE_MS,
    FakeServer,
    launch_chromium,
    open_page_again,
    open_profile,
)

expect.set_options(timeout=PATIENCE_MS)


# Not for the whole session: an open Playwright keeps an event loop running in the main thread.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    opened = open_profile(chromium)
    yield opened
    opened.close()


@pytest.fixture
def page(profile: BrowserContext) -> Iterator[Page]:
    """A page that must not log an error, fail a request, or ask another host."""
    with open_page_again(profile) as (opened, problems):
        yield opened
        found = list(problems.found)
    assert found == []


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    started = FakeServer()
    started.start()
    yield started
    started.stop()
