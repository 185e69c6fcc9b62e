"""A run taken out of one server and put into another: every fact, once, also under a new id."""

import json
import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.otlp_builders import T0_NS, gauge, loop, metrics, process, resource, stage, traces
from support.server_process import ServerProcess, StartServer, run_longpole

pytestmark = pytest.mark.integration

RUN_ID = "project/exported"
STEPS = 4


def send_run(server: ServerProcess) -> None:
    # Just now, since GPUs are joined to runs that are alive.
    now_s = (time.time_ns() - T0_NS) // 10**9
    gpus: dict[str, Any] = {"rl.gpu.ids": ["GPU-a"], "rl.gpu.count": 1}
    sender = process(RUN_ID, host="node-0", **gpus)
    for step in range(1, STEPS + 1):
        start_s = now_s - 50 + 10.0 * step
        spans = [
            stage("gen", step, start_s, start_s + 6.0),
            loop(step, start_s, start_s + 10.0),
        ]
        assert server.send("traces", traces((sender, spans))).status_code == 200
    seconds = range(now_s - 40, now_s)
    points = [(float(second), 0.5, {"hw.id": "GPU-a", "gpu.index": 0}) for second in seconds]
    node = resource({"host.name": "node-0"})
    body = metrics((node, [gauge("hw.gpu.utilization", points)]))
    assert server.send("metrics", body).status_code == 200
    server.wait_for(f"{path_of(RUN_ID)}/steps", lambda page: len(page["steps"]) == STEPS)


def make_manifest(file: str) -> str:
    piece = {"file": file, "table": "steps", "rows": 1}
    return json.dumps({"format": "longpole.run/1", "run_id": "r", "slices": [piece]})


def path_of(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def read_facts(server: ServerProcess, run_id: str) -> dict[str, Any]:
    """What the API says of a run, without what differs between two of the same content."""
    steps = server.get(f"{path_of(run_id)}/steps")["steps"]
    details = [server.get(f"{path_of(run_id)}/steps/{step['step']}") for step in steps]
    for detail in details:
        del detail["diagnosis"]
    return {"steps": steps, "details": json.loads(json.dumps(details).replace(run_id, "RUN"))}


def export_at_rest(server: ServerProcess, target: Path) -> dict[str, Any]:
    """Export while nothing is derived anew, and return what the API said meanwhile."""
    before: dict[str, Any] = {}
    for _ in range(50):
        before = read_facts(server, RUN_ID)
        shutil.rmtree(target, ignore_errors=True)
        done = run_longpole("export", RUN_ID, "--server", server.url, "--to", str(target))
        assert done.returncode == 0, done.stderr
        if read_facts(server, RUN_ID) == before and before["details"][0]["gpus"]:
            return before
    raise AssertionError(f"the run does not come to rest: {before}")


def count(server: ServerProcess, sql: str) -> int:
    answer = server.client.post("/clickhouse/", content=sql)
    assert answer.status_code == 200, answer.text
    return int(answer.text)


def test_a_run_moves_whole_and_once(start_server: StartServer, tmp_path: Path):
    first_dir, second_dir, target = tmp_path / "1", tmp_path / "2", tmp_path / "run"
    first_dir.mkdir()
    second_dir.mkdir()
    first = start_server(first_dir, "--no-agent")
    send_run(first)
    expected = export_at_rest(first, target)
    assert (target / "manifest.json").is_file()
    assert (
        run_longpole("export", RUN_ID, "--server", first.url, "--to", str(target)).returncode == 2
    )
    samples = count(first, "SELECT count() FROM gpu_samples")
    assert samples == 40

    second = start_server(second_dir, "--no-agent")
    for attempt in range(2):
        done = run_longpole("import", str(target), "--server", second.url)
        assert done.returncode == 0, done.stderr
        if attempt:
            assert "gpu" not in done.stderr
    assert read_facts(second, RUN_ID) == expected
    assert count(second, "SELECT count() FROM gpu_samples") == samples
    assert count(second, "SELECT sum(utilization_ratio_count) FROM gpu_samples_10s") == samples
    assert count(second, "SELECT count() FROM otel_traces") == 2 * STEPS

    done = run_longpole("import", str(target), "--server", second.url, "--run", "another/id")
    assert done.returncode == 0, done.stderr
    assert read_facts(second, "another/id") == expected
    assert count(second, "SELECT count() FROM gpu_samples") == samples
    runs = {run["run_id"] for run in second.get("/runs")["runs"]}
    assert runs == {RUN_ID, "another/id"}

    back = run_longpole("import", str(target), "--server", first.url)
    assert back.returncode == 0, back.stderr
    assert read_facts(first, RUN_ID) == expected
    assert count(first, "SELECT count() FROM gpu_samples") == samples

    report = tmp_path / "run.html"
    saved = run_longpole("report", RUN_ID, "-o", str(report), "--server", first.url)
    assert saved.returncode == 0, saved.stderr
    assert RUN_ID in report.read_text("utf-8")
    unknown = run_longpole("report", "no/such/run", "--server", first.url)
    assert unknown.returncode == 2
    assert "no run 'no/such/run'" in unknown.stderr

    asked: dict[str, str | int] = {"run": RUN_ID, "table": "alert_rules", "from_ns": 0, "to_ns": 1}
    assert first.client.get("/api/v1/export/rows", params=asked).status_code == 400


def test_what_cannot_be_exported_or_imported(server: ServerProcess, tmp_path: Path):
    done = run_longpole(
        "export", "no/such/run", "--server", server.url, "--to", str(tmp_path / "x")
    )
    assert done.returncode == 2
    assert "no run" in done.stderr
    assert not (tmp_path / "x").exists()
    assert run_longpole("export", "r", "--step", "1").returncode == 2
    broken = tmp_path / "broken"
    broken.mkdir()
    for manifest in (
        "{",
        "[]",
        '{"format": "longpole.run/1", "run_id": "r", "slices": [{"file": "a"}]}',
        make_manifest("a.parquet"),
        make_manifest("../broken/manifest.json"),
    ):
        (broken / "manifest.json").write_text(manifest)
        done = run_longpole("import", str(broken), "--server", server.url)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
    for query, body in (
        ("run=r&table=alert_rules", b"x"),
        ("run=r&table=steps", b"no parquet"),
        ("run=r%0A&table=steps", b"x"),
    ):
        answer = server.client.post(f"/api/v1/import/rows?{query}", content=body)
        assert answer.status_code == 400, answer.text
    answer = server.client.get("/api/v1/export/rows?run=r&table=alert_rules&from_ns=0&to_ns=1")
    assert answer.status_code == 404
