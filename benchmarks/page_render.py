"""How long a browser works until each page of a very large run is drawn.

Run by hand: `python benchmarks/page_render.py [--loads 10]`. The run is a pretend one of 10,000
steps, 1,024 GPUs, 8,192 samples and 20,000 spans in a step (`tests/support`), so that what the
server reads costs little; `page_latency.py` measures that part on the real store. Each page is
loaded with a warm cache, as a tab that is opened again.

`busy` is what the browser's main thread works: scripts, layout and paint, by Chromium's own
`TaskDuration`; it hardly depends on what else the machine does. `drawn` is the clock from the
address to the last panel, the server's part included. The budget is 1.5 s of `busy` at p95 on two
cores.
"""

import argparse
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from playwright.sync_api import BrowserContext, CDPSession, Page, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from longpole_dashboards.addresses import run_address, sample_address, step_address
from support.dashboard_browser import CHROMIUM_FLAGS, FakeServer
from support.dashboard_large_service import LARGE_RUN, NUM_STEPS

BUDGET_S = 1.5
STEP = NUM_STEPS - 2
# Page -> its address, and selectors of everything that is drawn last.
PAGES = {
    "runs": ("/", ("#runs-grid .lp-cell-run",)),
    "run, last 40": (
        run_address(LARGE_RUN),
        ("#run-shares .barlayer .point", "#run-gpus .heatmaplayer image", "#run-health .xtick"),
    ),
    "run, all steps": (
        run_address(LARGE_RUN) + "&steps=all",
        ("#run-shares .barlayer .point", "#run-gpus .heatmaplayer image", "#run-health .xtick"),
    ),
    "step": (
        step_address(LARGE_RUN, STEP),
        ("#step-timeline .heatmaplayer image", "#step-samples .lp-cell-parts",
         "#step-spread-figure .barlayer .point"),
    ),
    "sample": (sample_address(LARGE_RUN, f"{STEP:04d}-003-2"), ("#samplepage-siblings td",)),
    "cluster": (
        "/cluster",
        ("#cluster-map .heatmaplayer image", "#cluster-heat .heatmaplayer image"),
    ),
    "alerts": ("/alerts", ("#alerts-rules .lp-rule",)),
}  # fmt: skip


def load(page: Page, address: str, selectors: tuple[str, ...]) -> tuple[float, float]:
    """Load a page; return its busy seconds and its seconds by the clock."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")  # pyright: ignore[reportUnknownMemberType]
    page.goto("about:blank")
    before_s = _busy_s(session)
    began_s = time.perf_counter()
    page.goto(address)
    for selector in selectors:
        page.wait_for_selector(selector, state="attached", timeout=120_000)
    drawn_s = time.perf_counter() - began_s
    busy_s = _busy_s(session) - before_s
    session.detach()
    return busy_s, drawn_s


def open_profile(playwright: Playwright, directory: Path) -> BrowserContext:
    """Open a browser with a profile on disk: in a private window scripts are compiled anew."""
    return playwright.chromium.launch_persistent_context(
        directory,
        executable_path=os.environ.get("LONGPOLE_CHROMIUM") or shutil.which("chromium"),
        args=CHROMIUM_FLAGS,
        viewport={"width": 1440, "height": 900},
        bypass_csp=True,
    )


def _busy_s(session: CDPSession) -> float:
    answer = cast("dict[str, Any]", session.send("Performance.getMetrics"))  # pyright: ignore[reportUnknownMemberType]
    return next(each["value"] for each in answer["metrics"] if each["name"] == "TaskDuration")


def p95(values: list[float]) -> float:
    """Return the value that one load in twenty exceeds."""
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def main() -> int:
    """Load every page, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=10)
    parser.add_argument("--only", default="", help="part of the name of the pages to measure")
    options = parser.parse_args()
    server = FakeServer("--large")
    server.start()
    missed = list[str]()
    try:
        with sync_playwright() as playwright:
            print(f"{'page':<16}{'busy p50':>10}{'busy p95':>10}{'drawn p50':>11}{'drawn p95':>11}")
            with TemporaryDirectory() as profile:
                browser = open_profile(playwright, Path(profile))
                page = browser.new_page()
                for name, (address, selectors) in PAGES.items():
                    if options.only not in name:
                        continue
                    # A browser keeps a script compiled once it has run it twice.
                    for _ in range(3):
                        load(page, server.address + address, selectors)
                    found = [
                        load(page, server.address + address, selectors)
                        for _ in range(options.loads)
                    ]
                    busy, drawn = ([each[at] for each in found] for at in (0, 1))
                    print(
                        f"{name:<16}{statistics.median(busy):>8.2f} s{p95(busy):>8.2f} s"
                        f"{statistics.median(drawn):>9.2f} s{p95(drawn):>9.2f} s",
                        flush=True,
                    )
                    if p95(busy) > BUDGET_S:
                        missed.append(name)
                browser.close()
    finally:
        server.stop()
    print(
        f"budget {BUDGET_S} s of busy p95: "
        + (f"missed by {', '.join(missed)}" if missed else "met")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
