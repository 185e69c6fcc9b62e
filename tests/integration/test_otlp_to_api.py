"""OTLP in through the real OpenTelemetry SDK, the API out."""

import gzip
import time
from urllib.parse import quote

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from support.otlp_builders import gauge, loop, metrics, process, stage, traces
from support.server_process import ServerProcess

pytestmark = pytest.mark.integration


def path_of(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def train(exporter: SpanExporter, run_id: str, num_steps: int) -> None:
    """A training loop that knows OpenTelemetry and the conventions, but not Longpole's SDK."""
    resource = Resource.create(
        {"rl.run.id": run_id, "rl.role": "controller", "rl.gpu.count": 8, "host.name": "node-0"}
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("trainer")
    for step in range(1, num_steps + 1):
        with tracer.start_as_current_span(
            "rl.loop", attributes={"rl.loop.iteration": step}
        ) as span:
            for name in ("gen", "update_actor"):
                attributes = {"rl.loop.iteration": step, "rl.stage": name}
                with tracer.start_as_current_span("rl.stage", attributes=attributes):
                    time.sleep(0.01)
            span.set_attribute("rl.tokens.total", 800)
    assert provider.force_flush()
    provider.shutdown()


@pytest.mark.parametrize("transport", ["http", "http on the standard port", "grpc"])
def test_spans_of_the_opentelemetry_sdk_become_steps(server: ServerProcess, transport: str):
    run_id = f"otel/{transport}"
    exporter: SpanExporter
    if transport == "grpc":
        exporter = GrpcExporter(f"http://127.0.0.1:{server.ports['otlp_grpc']}", insecure=True)
    else:
        port = server.ports["http" if transport == "http" else "otlp_http"]
        exporter = HttpExporter(f"http://127.0.0.1:{port}/v1/traces")
    train(exporter, run_id, num_steps=3)
    steps = server.wait_for(f"{path_of(run_id)}/steps", lambda page: len(page["steps"]) == 3)[
        "steps"
    ]
    assert [(step["step"], step["closed_by"]) for step in steps] == [(n, "loop") for n in (1, 2, 3)]
    for step in steps:
        assert {item["stage"] for item in step["stages"]} == {"gen", "update_actor"}
        covered_s = sum(item["exclusive_s"] for item in step["stages"]) + step["unattributed_s"]
        assert covered_s == pytest.approx(step["duration_s"], abs=1e-9)
    run = server.get(path_of(run_id))
    assert (run["gpu_count"], run["num_steps"], run["state"]) == (8, 3, "live")


def test_two_runs_in_one_request_do_not_mix(server: ServerProcess):
    one, two = process("mixed/one", pid=1), process("mixed/two", pid=2, host="node1")
    body = traces(
        (one, [loop(1, 0.0, 10.0), stage("gen", 1, 0.0, 6.0)]),
        (two, [loop(1, 0.0, 4.0), stage("gen", 1, 0.0, 1.0)]),
    )
    assert server.send("traces", body).status_code == 200
    for run_id, seconds in (("mixed/one", 10.0), ("mixed/two", 4.0)):
        page = server.wait_for(f"{path_of(run_id)}/steps", lambda page: len(page["steps"]) == 1)
        assert page["steps"][0]["duration_s"] == seconds


def test_a_batch_sent_twice_is_stored_once(server: ServerProcess):
    body = metrics(
        (process("twice"), [gauge("critic/score/mean", [(1.0, 0.5, {"rl.loop.iteration": 1})])])
    )
    for _ in range(2):
        answer = server.send("metrics", body, {"longpole-batch-id": "agent/boot/1"})
        assert answer.status_code == 200
    points = server.wait_for(
        f"{path_of('twice')}/metrics?name=reward_mean", lambda page: bool(page["points"])
    )["points"]
    assert [(point["step"], point["value"]) for point in points] == [(1, 0.5)]


def what_was_taken(server: ServerProcess) -> tuple[set[str], list[str]]:
    """Return the runs, and how many requests were accepted ever."""
    lines = server.client.get("/metrics").text.splitlines()
    accepted = [line for line in lines if line.startswith("longpole_ingest_accepted_requests")]
    return {run["run_id"] for run in server.get("/runs")["runs"]}, accepted


def test_requests_that_cannot_be_taken_change_nothing(server: ServerProcess):
    before = what_was_taken(server)
    bomb = gzip.compress(b"\0" * (80 << 20))
    requests: list[tuple[bytes, dict[str, str], int]] = [
        (b"\xff\xff\xff not protobuf", {}, 400),
        (b"{not json", {"content-type": "application/json"}, 400),
        (
            b'{"resourceSpans": 3, "resourceMetrics": 3, "resourceLogs": 3}',
            {"content-type": "application/json"},
            400,
        ),
        (b"anything", {"content-type": "text/plain"}, 415),
        (b"not gzip", {"content-encoding": "gzip"}, 400),
        (bomb, {"content-encoding": "gzip"}, 413),
        (gzip.compress(traces())[:-9], {"content-encoding": "gzip"}, 400),
    ]
    for body, headers, status in requests:
        for signal in ("traces", "metrics", "logs"):
            answer = server.send(signal, body, headers)
            assert answer.status_code == status, (body[:30], answer.text)
    assert server.client.get("/v1/traces").status_code == 405
    assert what_was_taken(server) == before
    assert server.get("/health")["status"] == "ok"


def test_unknown_paths_answer_json_and_pages_answer_html(server: ServerProcess):
    for path in ("/api/v1/nothing", "/v1/nothing"):
        answer = server.client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    page = server.client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
