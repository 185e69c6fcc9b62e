"""What senders and users write is text: on every page of a real server, in elements and in charts.

Whoever may send names runs, stages, hosts, samples and metrics; whoever may act writes rules,
silences and comments. Pages are opened without their policy, which would stop a script by itself.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from longpole_dashboards.addresses import (
    alerts_address,
    cluster_address,
    compare_address,
    run_address,
    sample_address,
    step_address,
)
from support.dashboard_browser import PATIENCE_MS, open_page
from support.otlp_builders import (
    T0_NS,
    attributes,
    gauge,
    logs,
    loop,
    metrics,
    process,
    resource,
    span,
    stage,
    traces,
)
from support.server_process import ServerProcess

pytestmark = pytest.mark.browser

# Elements that run a script, a link that does, markdown that becomes one, and what Plotly takes for
# markup: an address of somebody else's and a size of one's own.
HOSTILE = (
    "<img src=x onerror=window.pwned=1><a href='javascript:window.pwned=1'>a</a>"
    "[m](javascript:window.pwned=1)<a href='https://evil.example/'>b</a>"
    "<span style='font-size:60px'>big</span>\"'><script>window.pwned=1</script>"
)
NAME = f"n{HOSTILE}"
RUN, OTHER = f"evil/{HOSTILE}", "evil/other"
SAMPLE, HOST, GPU = f"t{HOSTILE}", f"h{HOSTILE}", f"GPU-{HOSTILE}"
STEPS = 12


def send_run(server: ServerProcess, run_id: str, start_s: float) -> None:
    sender = process(
        run_id, host=HOST, start_s=start_s, role=NAME, rl__run__name=NAME, rl__project=NAME,
        rl__model__name=NAME, rl__system=NAME, rl__config__key=HOSTILE, rl__algorithm=NAME,
    )  # fmt: skip
    sender.attributes.extend(attributes({"rl.gpu.ids": [GPU], "rl.gpu.count": 1}))
    for step in range(1, STEPS + 1):
        at_s = start_s + 10.0 * step
        spans = [
            stage("gen", step, at_s, at_s + 5.0),
            stage(NAME, step, at_s + 5.0, at_s + 8.0),
            loop(step, at_s, at_s + 10.0, values={"rl.tokens.total": 1000 + step}),
        ]
        for number in range(4):
            sample = {
                "rl.trajectory.id": f"{SAMPLE}{step}-{number}", "rl.loop.iteration": step,
                "rl.group.id": NAME, "rl.trajectory.status": NAME, "rl.replica": NAME,
                "rl.phase": NAME if number else "train", "rl.rollout.replica": NAME,
                "gen_ai.usage.output_tokens": 100 + number,
            }  # fmt: skip
            trace = bytes([step, number] * 8)
            spans += [
                span("rl.trajectory", at_s, at_s + 1.0 + number, sample, trace=trace, id=trace[:8]),
                span(
                    f"execute_tool {NAME}", at_s + 0.2, at_s + 0.8,
                    {"gen_ai.tool.name": NAME, "rl.trajectory.id": sample["rl.trajectory.id"]},
                    trace=trace, parent=trace[:8],
                ),
            ]  # fmt: skip
        assert server.send("traces", traces((sender, spans))).status_code == 200
        scalars = [gauge("rl.scalar", [(at_s + 9.0, 0.5, {"rl.loop.iteration": step})])]
        assert server.send("metrics", metrics((sender, scalars))).status_code == 200
    events: list[tuple[str, float, dict[str, object]]] = [
        (NAME, start_s + 30.0, {"message": HOSTILE, "text": HOSTILE}),
        (
            "rl.stage.start", start_s + 10.0 * (STEPS + 1),
            {"rl.stage": NAME, "rl.loop.iteration": STEPS + 1},
        ),
    ]  # fmt: skip
    assert server.send("logs", logs((sender, events))).status_code == 200


def send_node(server: ServerProcess, start_s: float) -> None:
    seconds = [start_s + second for second in range(0, 130, 2)]
    of_gpu = {"hw.id": GPU, "gpu.index": 0, "hw.model": NAME, "hw.name": NAME}
    points = [(second, 0.5, of_gpu) for second in seconds]
    node = resource({"host.name": HOST})
    body = metrics((node, [gauge("hw.gpu.utilization", points)]))
    assert server.send("metrics", body).status_code == 200
    labels = {"replica": NAME, "model_name": NAME, "engine": NAME}
    running = [(second, 3.0, labels) for second in seconds]
    engine = resource({"host.name": HOST, "rl.run.id": RUN, "longpole.engine": NAME})
    body = metrics((engine, [gauge("vllm:num_requests_running", running)]))
    assert server.send("metrics", body).status_code == 200


def act(server: ServerProcess) -> None:
    """Make rules, silences and acknowledgements as somebody would who writes what he likes."""
    rule: dict[str, Any] = {
        "metric": "tokens_total", "threshold": 1, "severity": "critical", "title": NAME[:120],
        "author": NAME[:80],
    }  # fmt: skip
    made = server.client.post("/api/v1/rules", json=rule)
    assert made.status_code == 201, made.text
    other = {**rule, "rule_id": "user.other", "metric": NAME[:200]}
    assert server.client.post("/api/v1/rules", json=other).status_code == 201
    silence = {"rule": "run.hang", "author": NAME[:80], "comment": HOSTILE, "duration_s": 6000}
    made = server.client.post("/api/v1/silences", json=silence)
    assert made.status_code == 201, made.text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    server = ServerProcess(directory, "--no-agent")
    try:
        act(server)
        start_s = (time.time_ns() - T0_NS) / 1e9 - 135.0
        for run_id in (RUN, OTHER):
            send_run(server, run_id, start_s)
        send_node(server, start_s)
        server.wait_for("/runs", lambda page: len(page["runs"]) == 2)
        firing = server.wait_for("/alerts?state=firing", lambda page: len(page["alerts"]) >= 2)
        for alert in firing["alerts"][:1]:
            path = f"/api/v1/alerts/{alert['alert_id']}/ack"
            answer = server.client.post(path, json={"author": NAME[:80], "comment": HOSTILE})
            assert answer.status_code in {200, 201}, answer.text
        yield server
    finally:
        server.kill()


# What a page shows of it once it is drawn, and a word that stands there as it was written.
PAGES = {
    "runs": ("/", "#runs-grid .ag-cell"),
    "run": (run_address(RUN), "#run-shares .main-svg"),
    "step": (step_address(RUN, 5), ".js-plotly-plot .main-svg"),
    "sample": (sample_address(RUN, f"{SAMPLE}5-3"), ".js-plotly-plot .main-svg"),
    "compare": (compare_address(RUN, OTHER), "#compare-table"),
    "cluster": (cluster_address(HOST), ".js-plotly-plot .main-svg"),
    "alerts": (alerts_address(), "#alerts-cards .lp-alert"),
}
# Hovers over every trace of every chart, and gathers what markup made of what was written.
LOOK = """async () => {
  const found = [];
  const look = () => {
    for (const each of document.querySelectorAll("a")) {
      const to = each.getAttribute("href") ?? each.getAttribute("xlink:href") ?? "";
      if (/javascript:|evil[.]example/i.test(to) && !to.startsWith("/")) found.push(`link ${to}`);
    }
    const made = document.querySelectorAll("img[src='x'], [onerror], svg [style*='60px']");
    for (const each of made) found.push(each.outerHTML);
  };
  look();
  for (const plot of document.querySelectorAll(".js-plotly-plot")) {
    for (let curve = 0; curve < plot.data.length; curve += 1) {
      for (const point of [0, 1, 2]) {
        try {
          window.Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: point }]);
        } catch { continue; }
        await new Promise(requestAnimationFrame);
        look();
      }
    }
  }
  if (window.pwned) found.push("a script ran");
  return found;
}"""


@pytest.mark.parametrize("name", PAGES)
def test_what_was_written_stays_text(chromium: Browser, hostile: ServerProcess, name: str) -> None:
    path, drawn = PAGES[name]
    with open_page(chromium) as (page, problems):
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        page.goto(hostile.url + path)
        page.wait_for_selector(drawn, timeout=PATIENCE_MS, state="attached")
        expect_written(page, "<img src=x onerror")
        assert page.evaluate(LOOK) == []
        assert dialogs == []
        assert problems.found == []


def expect_written(page: Page, text: str) -> None:
    page.wait_for_function(
        "text => document.documentElement.textContent.includes(text)", arg=text, timeout=PATIENCE_MS
    )
