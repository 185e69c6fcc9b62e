"""Chromium for tests: starts it, and notes everything that a page must not do."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Playwright,
    Request,
    Response,
)

TESTS = Path(__file__).parents[1]
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Generous: the machine may be busy with other tests.
PATIENCE_MS = int(os.environ.get("PATIENCE_MS", "120000"))
DRAW_ALL = "addEventListener('DOMContentLoaded', () => window.longpoleNear?.drawAll())"


def launch_chromium(playwright: Playwright) -> Browser:
    """Start Debian's Chromium, or what `LONGPOLE_CHROMIUM` names."""
    path = os.environ.get("LONGPOLE_CHROMIUM") or shutil.which("chromium")
    assert path is not None, "These tests need Chromium: apt-get install chromium"
    return playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)


class Problems:
    """What a page did that it must not do, in words."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        self._page = page
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.found.append(f"script error: {error}"))
        page.on("response", self._on_response)
        page.on("requestfailed", self._on_failed)
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.found.append(f"console: {message.text[:300]}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.found.append(f"HTTP {response.status}: {response.url}")

    def _on_failed(self, request: Request) -> None:
        # A page that is left takes its unanswered questions with it.
        if request.failure != "net::ERR_ABORTED":
            self.found.append(f"failed: {request.url} ({request.failure})")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.found.append(f"foreign request: {request.url}")


@contextmanager
def open_page(
    browser: Browser, *, draws_all: bool = True, **options: Any
) -> Generator[tuple[Page, Problems]]:
    """Open a page in a fresh profile, in the viewer's zone Europe/Berlin.

    Charts are drawn when somebody scrolls near them. Tests look at all of a page: what they open
    draws everything at once, as for paper, unless they say `draws_all=False`.

    Tests look into pages with scripts of their own, which the pages' policy refuses: only tests
    of the policy itself say `bypass_csp=False`.
    """
    context = open_profile(browser, **options)
    page = context.new_page()
    if draws_all:
        page.add_init_script(DRAW_ALL)
    try:
        yield page, Problems(page)
    finally:
        context.close()


def open_profile(browser: Browser, **options: Any) -> BrowserContext:
    """Return a fresh profile, with what `open_page` says of it."""
    settings: dict[str, Any] = {
        "viewport": {"width": 1440, "height": 900},
        "timezone_id": "Europe/Berlin",
        "bypass_csp": True,
        **options,
    }
    context = browser.new_context(**settings)
    context.set_default_timeout(PATIENCE_MS)
    return context


@contextmanager
def open_page_again(profile: BrowserContext) -> Generator[tuple[Page, Problems]]:
    """Open a page as `open_page` does, in a profile that has nothing left but its cache.

    Reading the scripts of a page for the first time takes longer than most tests.
    """
    page = profile.new_page()
    page.add_init_script(DRAW_ALL)
    origins = set[str]()
    page.on("framenavigated", lambda frame: origins.add(_origin_of(frame.url)))
    try:
        yield page, Problems(page)
    finally:
        session = profile.new_cdp_session(page)
        for origin in origins:
            session.send(  # pyright: ignore[reportUnknownMemberType]
                "Storage.clearDataForOrigin",
                {"origin": origin, "storageTypes": "cookies,local_storage,indexeddb"},
            )
        for opened in profile.pages:
            opened.close()


def _origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


class FakeServer:
    """The dashboards on a pretend service, in a process of their own."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        self._arguments = ["--speed", "0", *arguments]
        self._process: subprocess.Popen[str] | None = None
        self.port = port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "support.dashboard_serve", "--port", str(self.port)]
        self._process = subprocess.Popen(
            [*command, *self._arguments], cwd=TESTS, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "The server did not start"
        self.port = json.loads(line)["port"]

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        self._process.wait(timeout=120)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None

    def finish_step(self, run_id: str) -> int:
        """Let the run's open step end; return its number."""
        return int(self._post("finish-step", run=run_id)["step"])

    def slow_down(self, seconds: float) -> None:
        """Let every look at steps take so much longer; 0 ends those that are under way."""
        self._post("slow", seconds=seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass in the pretend cluster."""
        self._post("advance", seconds=seconds)

    def let_push(self, works: bool) -> None:
        """Close every pushed connection and refuse new ones, or let them in again."""
        self._post("push", works=str(works).lower())

    def list_links(self) -> dict[str, str]:
        """Where alerts lead, by rule."""
        with urllib.request.urlopen(f"{self.address}/fake/links", timeout=60) as answer:
            return json.loads(answer.read())

    def _post(self, name: str, **query: object) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.address}/fake/{name}?{urlencode(query)}", method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())
