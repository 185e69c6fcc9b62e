"""The OpenTelemetry SDK for JavaScript, over every transport it has."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from support.otlp_server import running_server

FOLDER = Path(__file__).parent / "js"
SECONDS = 1_000_000_000
T0 = 1_760_000_000 * SECONDS

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules").exists(),
    reason="needs Node.js and `npm ci`: run `python -m tests.prepare`",
)


def export(transport: str, url: str) -> dict[str, str]:
    process = subprocess.run(
        ["node", "export.mjs", transport, url],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize("transport", ["http-proto", "http-json", "grpc"])
def test_a_step_sent_from_javascript(tmp_path: Path, transport: str) -> None:
    with running_server(tmp_path) as server:
        url = f"http://{server.grpc_target}" if transport == "grpc" else server.http_url
        sent = export(transport, url)
        records = server.read_records()

    spans = {span.stage: span for span in records.stage_spans}
    assert set(spans) == {"gen", "step"}
    loop, stage = spans["step"], spans["gen"]
    assert (loop.run_id, loop.attempt, loop.step) == (f"js/{transport}", 1, 7)
    assert (loop.trace_id, loop.span_id) == (sent["trace_id"], sent["span_id"])
    assert (loop.start_ns, loop.end_ns) == (T0 + 5, T0 + 9 * SECONDS)
    assert (loop.is_loop, loop.tokens_total) == (True, 4096)
    assert (stage.start_ns, stage.end_ns) == (T0 + SECONDS, T0 + 3 * SECONDS + 250)
    assert stage.parent_span_id == loop.span_id
    raw = {span.name: span for span in records.raw_spans}["rl.sample"]
    assert raw.attributes == {
        "rl.loop.iteration": "7",
        "ratio": "0.25",
        "flag": "true",
        "list": '["a","b"]',
    }
    assert raw.events == ((T0 + 2 * SECONDS, "resumed", {"turn": "2"}),)
    assert (raw.scope_name, raw.scope_version, raw.kind) == ("contract", "1.2.3", "Internal")


@pytest.mark.parametrize("transport", ["http-proto", "http-json"])
def test_scalars_and_events_sent_from_javascript(tmp_path: Path, transport: str) -> None:
    with running_server(tmp_path) as server:
        export(transport, server.http_url)
        records = server.read_records()

    points = {point.name: (point.step, point.value) for point in records.metric_points}
    assert points == {"loss": (7, 0.125), "samples": (7, 256.0)}
    (start,) = records.stage_starts
    assert (start.run_id, start.step, start.stage) == (f"js/{transport}", 8, "gen")
    assert start.start_ns == T0 + 10 * SECONDS
