"""A server that only shows, in Chromium: live pages, acts, and what it says while nobody writes."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from longpole_dashboards.addresses import alerts_address, run_address
from support.clickhouse_front import ClickHouseFront
from support.dashboard_browser import PATIENCE_MS, open_page
from support.otlp_builders import T0_NS, loop, process, stage, traces
from support.server_process import ServerProcess

pytestmark = [pytest.mark.browser, pytest.mark.integration]

RUN = "web/run"
RULE = "user.slow-steps"
MAX_IMPORT_BYTES = 4 << 20
CARD = "#alerts-cards .lp-alert"
NOTICE = "#connection-notice"
AWAY = "The server that takes data and judges rules does not answer"
# Whether the chart of shares has a bar of a step.
HAS_STEP = """step => {
  const plot = document.querySelector("#run-shares .js-plotly-plot");
  const steps = (plot?.data ?? []).flatMap(trace => trace.customdata ?? []);
  return steps.some(each => (Array.isArray(each) ? each[0] : each) === step);
}"""


class Cluster:
    """One server that takes data, one that shows, and a database between them."""

    def __init__(self, directory: Path, opened: ExitStack) -> None:
        self._directory = directory
        self._opened = opened
        (directory / "clickhouse").mkdir()
        self._database = ClickHouseFront(directory / "clickhouse").start()
        opened.callback(self._database.kill)
        self._start_s = (time.time_ns() - T0_NS) / 1e9 - 120.0
        self.writer = self._start("ingest")
        self.port = self.writer.ports["http"]
        self.web = self._start("web", "--writer-url", self.writer.url)

    def _start(self, role: str, *options: str) -> ServerProcess:
        server = ServerProcess(
            self._directory / role, "--role", role, "--clickhouse-url", self._database.url,
            "--max-import-bytes", str(MAX_IMPORT_BYTES),
            # However slow the machine is, the trainer is there.
            "--lost-after-s", "100000", *options,
            environment={"LONGPOLE_SESSION_KEY": "k" * 40}, command="server",
        )  # fmt: skip
        self._opened.callback(server.kill)
        return server

    def start_writer_again(self) -> None:
        """Start it at the address where the other one looks for it."""
        self.writer = self._start("ingest", "--port", str(self.port))

    def send(self, step: int) -> None:
        at_s = self._start_s + 10.0 * step
        spans = [
            stage("gen", step, at_s, at_s + 8),
            loop(step, at_s, at_s + 9, values={"rl.tokens.total": 1000}),
        ]
        sender = process(RUN, start_s=self._start_s)
        assert self.writer.send("traces", traces((sender, spans))).status_code == 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ExitStack() as opened:
        yield Cluster(tmp_path_factory.mktemp("web"), opened)


def acknowledge(page: Page, words: str) -> None:
    page.locator("#alerts-author").fill("kim")
    page.locator("#alerts-comment").fill(words)
    page.locator("#alerts-submit").click()


def test_pages_live_on_while_the_writing_server_is_away_and_say_so(
    chromium: Browser, cluster: Cluster
) -> None:
    rule = {"metric": "step_duration_s", "threshold": 1, "title": "slow steps", "rule_id": RULE}
    made = cluster.web.client.post("/api/v1/rules", json=rule)
    assert made.status_code == 201, made.text
    # While a run warms up its steps are not judged.
    for step in range(1, 8):
        cluster.send(step)
    cluster.writer.wait_for("/alerts?state=firing", lambda found: RULE in str(found["alerts"]))
    with open_page(chromium) as (run, _), open_page(chromium) as (alerts, _):
        run.goto(cluster.web.url + run_address(RUN))
        alerts.goto(cluster.web.url + alerts_address())
        run.wait_for_function(HAS_STEP, arg=7, timeout=PATIENCE_MS)
        cluster.send(8)
        run.wait_for_function(HAS_STEP, arg=8, timeout=PATIENCE_MS)
        expect(run.locator(NOTICE)).to_be_empty()

        card = alerts.locator(CARD, has_text="slow steps")
        card.get_by_role("button", name="Acknowledge").click()
        acknowledge(alerts, "looking")
        expect(card).to_contain_text("kim looks after it")
        found = cluster.writer.get("/alerts?state=firing")["alerts"]
        (alert,) = (each for each in found if each["rule"] == RULE)
        assert alert["acknowledged"]["author"] == "kim"

        cluster.writer.kill()
        for page in (run, alerts):
            expect(page.locator(NOTICE)).to_contain_text(AWAY)
        # What is there is still shown; what would change something is refused, and says why.
        assert run.evaluate(HAS_STEP, 8)
        card.get_by_role("button", name="Comment").click()
        acknowledge(alerts, "still looking")
        expect(alerts.locator("#alerts-refused")).to_contain_text("does not answer")
        alerts.locator("#alerts-cancel").click()
        runs = cluster.web.get("/runs")["runs"]
        assert [each["state"] in {"live", "stalled"} for each in runs] == [True]

        cluster.start_writer_again()
        for page in (run, alerts):
            expect(page.locator(NOTICE)).to_be_empty()
        cluster.send(9)
        run.wait_for_function(HAS_STEP, arg=9, timeout=PATIENCE_MS)
        expect(card).to_contain_text("kim looks after it")


def test_a_large_body_passes_and_a_larger_one_is_refused(cluster: Cluster) -> None:
    # Few steps in many bytes: what is tried is the way, and not how fast a log is read.
    figures = {"timing_s/step": 10.0, "timing_s/gen": 6.0, "note": "x" * 250_000}
    lines = [json.dumps({"step": step, "data": figures}) for step in range(1, 16)]
    log = "\n".join(lines).encode()
    assert MAX_IMPORT_BYTES * 0.8 < len(log) < MAX_IMPORT_BYTES
    url = f"{cluster.web.url}/api/v1/import?name=large.jsonl"
    taken = httpx.post(url, content=log, timeout=300.0)
    assert taken.status_code == 200, taken.text
    cluster.web.wait_for(
        "/runs", lambda found: "import/large" in {each["run_id"] for each in found["runs"]}
    )
    too_much = bytes(MAX_IMPORT_BYTES + 1)

    def pieces() -> Iterator[bytes]:
        """A body that does not say how large it is."""
        yield from (too_much, too_much)

    for content in (too_much, pieces()):
        refused = httpx.post(url, content=content, timeout=300.0)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "too_large")
