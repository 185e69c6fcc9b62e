"""Payloads in the shapes of opentelemetry-proto's examples, and bad ones over a real socket."""

import gzip
import http.client
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from longpole_server.ingest.limits import OtlpLimits
from support import otlp_builders as otlp
from support.otlp_server import RunningServer, running_server

PAYLOADS = Path(__file__).parent / "payloads"
LIMIT = 1 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path, OtlpLimits(max_request_bytes=LIMIT)) as running:
        yield running


def post(
    server: RunningServer, body: bytes, signal: str = "traces", **headers: str
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    named.setdefault("content-type", "application/x-protobuf")
    try:
        connection.request("POST", f"/v1/{signal}", body, named)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_the_example_payloads(server: RunningServer) -> None:
    for signal in ("traces", "metrics", "logs"):
        body = (PAYLOADS / f"{signal}.json").read_bytes()
        assert post(server, body, signal, content_type="application/json") == (200, b"{}")

    records = server.read_records()
    (loop,) = records.stage_spans
    assert (loop.run_id, loop.step, loop.tokens_total) == ("math/grpo-7b", 12, 250_000)
    assert loop.trace_id == "5b8efff798038103d269b633813fc60c"
    (raw,) = records.raw_spans
    assert raw.attributes["my.map"] == '{"a":1}'
    assert raw.attributes["my.bytes"] == "AAEC"
    assert raw.links[0][0] == "5b8efff798038103d269b633813fc60d"
    assert {point.name: point.step for point in records.metric_points} == {
        'my.counter{my.counter.attr="some value"}': 12,
        "timing_s/gen": 12,
    }
    assert [sample.name for sample in records.engine_samples] == [
        "vllm:e2e_request_latency_seconds_count",
        "vllm:e2e_request_latency_seconds_sum",
    ]
    assert [(start.step, start.stage) for start in records.stage_starts] == [(12, "gen")]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"garbage", {}, 400),
        (os.urandom(1000), {"content_type": "application/json"}, 400),
        (b"x", {"content_type": "text/html"}, 415),
        (b"x" * (LIMIT + 1), {}, 413),
        (b"x" * (8 * LIMIT), {}, 413),
        (gzip.compress(b"\0" * (64 * LIMIT)), {"content_encoding": "gzip"}, 413),
        (gzip.compress(b"\0" * 1000)[:-6], {"content_encoding": "gzip"}, 400),
        (b"x", {"content_encoding": "br"}, 415),
    ],
    ids=["garbage", "json", "type", "large", "larger", "bomb", "cut", "coding"],
)
def test_a_bad_request_changes_nothing(
    server: RunningServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert post(server, body, **headers)[0] == status

    assert server.pipeline.stats.num_accepted == 0
    good = otlp.traces((otlp.process(), [otlp.loop(1, 0, 10)]))
    assert post(server, good) == (200, b"")
    assert len(server.read_records().raw_spans) == 1


def test_a_refused_body_leaves_the_connection_usable(server: RunningServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
    good = otlp.traces((otlp.process(), [otlp.loop(1, 0, 10)]))
    statuses: list[int] = []
    for body in (b"x" * (2 * LIMIT), good, b"x" * (4 * LIMIT), good):
        connection.request("POST", "/v1/traces", body, {"content-type": "application/x-protobuf"})
        response = connection.getresponse()
        response.read()
        statuses.append(response.status)
    connection.close()

    assert statuses == [413, 200, 413, 200]
