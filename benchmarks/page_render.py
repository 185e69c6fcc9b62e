"""How long a browser takes until a page of a very large run is there, and what it works for that.

Run by hand: `python benchmarks/page_render.py [--loads 5] [--cold] [--only run]`. The run is a
pretend one of 10,000 steps, 1,024 GPUs, 8,192 samples and 20,000 spans in a step
(`tests/support`); `page_latency.py` measures what the server reads on the real store.

A load is one of a window of 1280 x 800 with a warm cache, as of somebody who has the dashboard
open all day: an address is opened, or a page loaded anew, in a tab that shows something of the same
server, so that no process of the browser has to start first. `--cold` takes a new profile for every
load. It begins when the address is gone to (`performance.timeOrigin`).
It ends at first sight: everything in the window is painted, and nothing in it changes any more
until the server has answered all questions and 0.7 s have gone by (ages that count up aside).

`sight` is that time by the clock, `CPU` what the page's main thread worked meanwhile, by its own
processor time, which other programs change little. Of it: `script`, `style`, `layout`; the rest is
parsing, paint and the collection of garbage. `server` is the time in which the server worked for at
least one answer, a part of `sight` that the browser mostly spends on reading scripts. `--parts`
samples one more load and says whose scripts worked. The budget is 1.5 s for the client alone; it is
`sight` that is held against it, the server's time included, which is the stricter reading.
Charts and tables below the window follow later and do not count.

The first line is the floor: an empty page of Dash with one chart of three bars and the same
libraries.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from playwright.sync_api import BrowserContext, CDPSession, Page, Playwright, sync_playwright

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from longpole_dashboards.addresses import (
    compare_address,
    run_address,
    sample_address,
    step_address,
)
from support.dashboard_browser import CHROMIUM_FLAGS, FakeServer
from support.dashboard_large_service import LARGE_RUN, NUM_STEPS

BUDGET_S = 1.5
FLOOR = "floor"
STEP = NUM_STEPS - 2
WARMING_LOADS = 2
# Page -> its address, and what has to be there at first sight.
PAGES: Mapping[str, tuple[str, Sequence[str]]] = {
    "runs": ("/", ("#runs-grid .lp-cell-run",)),
    "run": (
        run_address(LARGE_RUN),
        ("#run-verdict h2", "#run-tiles .lp-tile", "#run-evidence td",
         "#run-shares .barlayer .point"),
    ),
    "run, all steps": (
        run_address(LARGE_RUN) + "&steps=all",
        ("#run-verdict h2", "#run-tiles .lp-tile", "#run-shares .scatterlayer .js-fill"),
    ),
    "step": (
        step_address(LARGE_RUN, STEP),
        ("#step-verdict h2", "#step-ledger .barlayer .point", "#step-timeline .heatmaplayer image"),
    ),
    "sample": (
        sample_address(LARGE_RUN, f"{STEP:04d}-003-2"),
        ("#samplepage-summary *", "#samplepage-lanes .barlayer .point"),
    ),
    "compare": (
        compare_address(LARGE_RUN, LARGE_RUN, (NUM_STEPS - 50, None), (1, 50)),
        ("#compare-headline *", "#compare-waterfall .barlayer .point"),
    ),
    "cluster": (
        "/cluster",
        ("#cluster-stats .lp-tile", "#cluster-map .heatmaplayer image", "#cluster-nodes .ag-row"),
    ),
    "alerts": ("/alerts", ("#alerts-rules .lp-rule",)),
}  # fmt: skip

# Notes when anything in the window changed last, and which questions are unanswered.
WATCH = """
(() => {
  const state = window.sight = { changedMs: 0, asked: 0, pending: 0 };
  const plainFetch = window.fetch.bind(window);
  window.fetch = (...request) => {
    const answer = plainFetch(...request);
    if (!String(request[0]?.url ?? request[0]).includes("_dash-update-component")) return answer;
    state.asked += 1;
    state.pending += 1;
    const done = () => window.setTimeout(() => { state.pending -= 1; });
    answer.then(done, done);
    return answer;
  };
  const passing = "[data-since-ms], .lp-gauge, #connection-pill, #connection-notice, head, script";
  const isSeen = (element) => {
    const box = element.getBoundingClientRect();
    return (box.width || box.height) && box.bottom > 0 && box.top < innerHeight;
  };
  const touched = new Set();
  let isPlanned = false;
  const look = () => {
    isPlanned = false;
    const elements = [...touched];
    touched.clear();
    if (elements.some((each) => each.isConnected && !each.closest(passing) && isSeen(each))) {
      state.changedMs = performance.now();
    }
  };
  new MutationObserver((changes) => {
    for (const { target, attributeName, addedNodes } of changes) {
      /* Dash marks that it waits for charts and answers; nobody sees it. */
      if (attributeName === "class" && target.parentElement?.closest(".dash-graph")) continue;
      if (target.id === "react-entry-point") continue;
      if (target === document.body || target.matches?.("footer")) {
        /* Libraries put scripts and styles in there: what has a size is seen. */
        for (const added of addedNodes) if (added.nodeType === 1) touched.add(added);
        continue;
      }
      touched.add(target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement);
    }
    touched.delete(null);
    if (isPlanned) return;
    isPlanned = true;
    /* After the frame that shows it. */
    requestAnimationFrame(() => setTimeout(look));
  }).observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
  const isDrawn = (place) => {
    if (!isSeen(place)) return true;
    const plot = place.querySelector(".js-plotly-plot");
    return Boolean(plot?._fullLayout && (plot.data?.length || plot.layout?.annotations?.length));
  };
  state.isThere = (selectors, quietMs) =>
    state.changedMs > 0 && !state.pending && performance.now() - state.changedMs > quietMs
    && selectors.every((each) => document.querySelector(each))
    && [...document.querySelectorAll(".lp-wait:empty")].every((each) => !isSeen(each))
    && [...document.querySelectorAll(".dash-graph")].every(isDrawn);
  state.serverMs = () => {
    const asked = performance.getEntriesByType("resource")
      .filter(({ name }) => /_dash-(layout|update-component)/.test(name))
      .map(({ requestStart, responseStart }) =>
        [Math.min(requestStart, state.changedMs), Math.min(responseStart, state.changedMs)])
      .sort(([a], [b]) => a - b);
    let [total, until] = [0, 0];
    for (const [start, end] of asked) {
      total += Math.max(0, end - Math.max(start, until));
      until = Math.max(until, end);
    }
    return total;
  };
})();
"""
# Something of the same server that shows nothing.
BLANK = "/assets/icons/longpole.svg"
QUIET_MS = 700
POLL_S = 0.1
# What a script's address holds -> whose it is.
OWNERS = (
    ("plotly", "Plotly"),
    ("renderer", "Dash"),
    ("dash_core", "Dash"),
    ("dash_html", "Dash"),
    ("async-", "Dash"),
    ("react", "React"),
    ("mantine", "Mantine"),
    ("ag_grid", "ag-grid"),
    ("polyfill", "polyfill"),
    ("/assets/", "own"),
    ("(garbage collector)", "garbage"),
    ("(program)", "browser"),
)


@dataclass(frozen=True, slots=True)
class Load:
    """One load, in seconds."""

    sight_s: float
    cpu_s: float
    script_s: float
    style_s: float
    layout_s: float
    server_s: float


def load(page: Page, address: str, selectors: Sequence[str]) -> Load:
    """Load a page and wait for its first sight."""
    page.goto(f"{address.split('/', 3)[0]}//{address.split('/', 3)[2]}{BLANK}")
    session = page.context.new_cdp_session(page)
    _ask(session, "Performance.enable", timeDomain="threadTicks")
    before = _metrics(session)
    page.goto(address, wait_until="commit")
    while not page.evaluate(
        "([all, quietMs]) => window.sight.isThere(all, quietMs)", [list(selectors), QUIET_MS]
    ):
        time.sleep(POLL_S)
    after = _metrics(session)
    changed_ms, server_ms = page.evaluate("[window.sight.changedMs, window.sight.serverMs()]")
    session.detach()
    took = {name: after[name] - before[name] for name in after}
    return Load(
        changed_ms / 1e3,
        took["TaskDuration"],
        took["ScriptDuration"],
        took["RecalcStyleDuration"],
        took["LayoutDuration"],
        server_ms / 1e3,
    )


def sample_owners(page: Page, address: str, selectors: Sequence[str]) -> Mapping[str, float]:
    """Return the milliseconds of one load by whose script was running."""
    session = page.context.new_cdp_session(page)
    _ask(session, "Profiler.enable")
    _ask(session, "Profiler.setSamplingInterval", interval=500)
    _ask(session, "Profiler.start")
    load(page, address, selectors)
    profile = _ask(session, "Profiler.stop")["profile"]
    session.detach()
    frames = {node["id"]: node["callFrame"] for node in profile["nodes"]}
    spent = Counter[str]()
    for node, delta_us in zip(profile["samples"], profile["timeDeltas"], strict=True):
        frame = frames[node]
        name = frame["url"] or frame["functionName"]
        owner = next((whose for part, whose in OWNERS if part in name), "other")
        if frame["functionName"] != "(idle)":
            spent[owner] += delta_us / 1e3
    return dict(spent.most_common())


def _ask(session: CDPSession, method: str, **options: object) -> dict[str, Any]:
    return cast("dict[str, Any]", session.send(method, options))  # pyright: ignore[reportUnknownMemberType]


def _metrics(session: CDPSession) -> dict[str, float]:
    return {
        each["name"]: each["value"] for each in _ask(session, "Performance.getMetrics")["metrics"]
    }


@contextmanager
def opened(playwright: Playwright) -> Generator[Page]:
    """Open a browser with a profile on disk: in a private window scripts are compiled anew."""
    with TemporaryDirectory() as profile:
        browser: BrowserContext = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=os.environ.get("LONGPOLE_CHROMIUM") or shutil.which("chromium"),
            args=CHROMIUM_FLAGS,
            viewport={"width": 1280, "height": 800},
            bypass_csp=True,
        )
        page = browser.new_page()
        page.add_init_script(WATCH)
        yield page
        browser.close()


@contextmanager
def floor_server() -> Generator[str]:
    """Serve an empty page of Dash; yield its address."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("empty_page.py"))],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


def report(name: str, found: Sequence[Load]) -> bool:
    """Print a page's median and slowest load; return whether the median keeps the budget."""

    def middle(part: str) -> float:
        return statistics.median(getattr(each, part) for each in found)

    sight_s = middle("sight_s")
    print(
        f"{name:<16}{sight_s:>8.2f}{max(each.sight_s for each in found):>9.2f}"
        f"{middle('cpu_s'):>8.2f}{middle('script_s'):>9.2f}{middle('style_s'):>8.2f}"
        f"{middle('layout_s'):>9.2f}{middle('server_s'):>9.2f}",
        flush=True,
    )
    return sight_s <= BUDGET_S


def measure(
    playwright: Playwright, name: str, address: str, selectors: Sequence[str], *, loads: int,
    cold: bool, parts: bool,
) -> bool:  # fmt: skip
    """Measure one page; return whether it keeps the budget."""
    found = list[Load]()
    if cold:
        for _ in range(loads):
            with opened(playwright) as page:
                found.append(load(page, address, selectors))
        return report(name, found)
    with opened(playwright) as page:
        # A browser keeps a script compiled once it has run it twice.
        for _ in range(WARMING_LOADS):
            load(page, address, selectors)
        found += [load(page, address, selectors) for _ in range(loads)]
        is_kept = report(name, found)
        if parts:
            owners = sample_owners(page, address, selectors)
            print("   ms: " + ", ".join(f"{whose} {ms:.0f}" for whose, ms in owners.items()))
    return is_kept


def main() -> int:
    """Load every page, print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--only", default="", help="names of pages, with semicolons between")
    parser.add_argument("--cold", action="store_true", help="a new profile for every load")
    parser.add_argument("--parts", action="store_true", help="whose scripts work, sampled")
    options = parser.parse_args()
    wanted = options.only.split(";") if options.only else [FLOOR, *PAGES]
    how = {"loads": options.loads, "cold": options.cold, "parts": options.parts}
    server = FakeServer("--large")
    server.start()
    missed = list[str]()
    print(
        f"{'seconds':<16}{'sight':>8}{'slowest':>9}{'CPU':>8}{'script':>9}{'style':>8}"
        f"{'layout':>9}{'server':>9}"
    )
    try:
        with sync_playwright() as playwright, floor_server() as floor:
            for name in wanted:
                path, selectors = PAGES.get(name, ("/", ("#chart .barlayer .point",)))
                base = floor if name == FLOOR else server.address
                if not measure(playwright, name, base + path, selectors, **how):
                    missed.append(name)
    finally:
        server.stop()
    print(f"budget {BUDGET_S} s: " + (f"missed by {', '.join(missed)}" if missed else "met"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
