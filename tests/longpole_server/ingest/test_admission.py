"""What a sender that is bound to projects may send, over HTTP and gRPC."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from starlette.applications import Starlette

from longpole_server.ingest.admission import Admission
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.http import create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import Signal
from longpole_server.model.principal import EVERYBODY, Principal
from longpole_server.model.records import RunStart
from support import otlp_builders as otlp
from support.otlp_pipeline import RecordingWriter, running_pipeline

BOUND = "Bearer of-a"
ANYBODY = "Bearer of-all"
SENDERS = {BOUND: Principal("token a", "ingest", frozenset({"proja"})), ANYBODY: EVERYBODY}
COLLIDED = ("Another live controller used the run id 'shared' at the same time; ...",)
STARTS = [
    RunStart("run-a", 1, 1, project="proja"),
    RunStart("run-b", 1, 1, project="projb"),
    RunStart("shared", 1, 1, project="proja", host="a", pid=7),
    RunStart("shared#2", 1, 1, project="projb", host="b", pid=7, notes=COLLIDED),
]
JOB = "ray:01000000"
SERVICES: Mapping[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}


def metric(
    values: Mapping[str, object], name: str = "loss", point: Mapping[str, object] | None = None
) -> bytes:
    return otlp.metrics((of_a(values), [otlp.gauge(name, [(1, 0.5, point or {})])]))


def trace(values: Mapping[str, object]) -> bytes:
    return otlp.traces((of_a(values), [otlp.stage("update_actor", 5, 0, 1)]))


def event(values: Mapping[str, object]) -> bytes:
    return otlp.logs((of_a(values), [("rl.run.end", 1, {})]))


def of_a(values: Mapping[str, object]) -> Resource:
    return otlp.resource({"rl.project": "proja", **values})


def span_of_b() -> bytes:
    span = otlp.stage("gen", 1, 0, 1, values={"rl.run.id": "run-b"})
    return otlp.traces((of_a(A), [span]))


def event_of_b() -> bytes:
    return otlp.logs((of_a(A), [("rl.run.start", 1, {"rl.project": "projb"})]))


def find_starts(run_id: str) -> list[RunStart]:
    return [start for start in STARTS if start.run_id.split("#")[0] == run_id.split("#")[0]]


A = {"rl.run.id": "run-a"}
OF_JOB = {"longpole.job": JOB}
LIKE_B = {"service.name": "t", "host.name": "b"}
NO_PROJECT = otlp.metrics((otlp.resource(A), []))
# What is refused, and what its refusal tells to do.
REFUSED: list[tuple[str, Signal, bytes, str]] = [
    ("no project", "metrics", NO_PROJECT, "rl.project"),
    ("another project", "metrics", metric({"rl.project": "projb", "rl.run.id": "c"}), "'projb'"),
    ("a run of another", "metrics", metric({"rl.run.id": "run-b"}), "another run id"),
    ("a span of another's run", "traces", span_of_b(), "another run id"),
    ("an event of another project", "logs", event_of_b(), "'projb'"),
    ("an id that only the server gives", "traces", trace({"rl.run.id": "run-b#2"}), "another"),
    ("a run that collided", "metrics", metric({"rl.run.id": "shared"}), "another run id"),
    ("a host's lone run", "metrics", metric({"host.name": "b", "longpole.job": "x"}), "agent"),
    ("a job's engine", "metrics", metric(OF_JOB, "vllm:num_requests_waiting"), "agent"),
    ("a job's stages", "traces", trace(OF_JOB), "agent"),
    ("a job's events", "logs", event(OF_JOB), "agent"),
    ("the first claim of a job", "metrics", metric({**A, **OF_JOB}), "agent"),
    ("an invented run's metrics", "metrics", metric(LIKE_B), "rl.run.id"),
    ("an invented run's stages", "traces", trace(LIKE_B), "rl.run.id"),
    ("an invented run's events", "logs", event(LIKE_B), "rl.run.id"),
    ("a blank run", "metrics", metric({"rl.run.id": " /"}), "rl.run.id"),
    ("a GPU", "metrics", metric(A, "hw.gpu.utilization", {"hw.id": "G"}), "without projects"),
    ("a host", "metrics", metric(A, "system.memory.usage"), "without projects"),
    ("an agent", "metrics", metric({**A, "service.name": "longpole-agent"}), "without projects"),
]
ALLOWED: list[tuple[str, Signal, bytes]] = [
    ("a trainer's metrics", "metrics", metric(A)),
    ("a trainer's stages", "traces", trace(A)),
    ("a trainer's events", "logs", event(A)),
    ("a run that is new", "metrics", metric({"rl.run.id": "run-new"})),
    (
        "its run's own leader, though another's run collided with it",
        "traces",
        trace({"rl.run.id": "shared", "host.name": "a", "process.pid": 7}),
    ),
    ("a run by project and name", "metrics", metric({"rl.run.name": "new"})),
    ("an engine", "metrics", metric(A, "vllm:num_requests_waiting")),
    ("a scalar named like hardware", "metrics", metric(A, "system.x", {"rl.loop.iteration": 1})),
]


class Receivers:
    """Both receivers on one pipeline; nodes of every address work for one job."""

    def __init__(self, pipeline: Pipeline, writer: RecordingWriter) -> None:
        self.pipeline = pipeline
        self.writer = writer
        self._admission = Admission(lambda header: SENDERS.get(header or ""), find_starts)
        routes = create_otlp_routes(pipeline, OtlpLimits(), self._admission, lambda _: JOB)
        self._app = Starlette(routes=routes)

    def post(self, signal: Signal, body: bytes, token: str = BOUND) -> tuple[int, str]:
        """Send over HTTP; return the status and the message of a refusal."""
        headers = {"content-type": "application/x-protobuf", "authorization": token}

        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.post(f"/v1/{signal}", content=body, headers=headers)

        response = asyncio.run(request())
        return response.status_code, Status.FromString(response.content).message

    def call(self, signal: Signal, body: bytes) -> tuple[grpc.StatusCode, str]:
        """Send over gRPC; return the code and the message of a refusal."""

        async def main() -> tuple[grpc.StatusCode, str]:
            server = await start_otlp_grpc(
                self.pipeline, "127.0.0.1", 0, OtlpLimits(), self._admission
            )
            try:
                async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
                    stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
                        SERVICES[signal]
                    )
                    await stub(body, metadata=[("authorization", BOUND)], timeout=60)
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or ""
            finally:
                await server.stop(1.0)
            return grpc.StatusCode.OK, ""

        return asyncio.run(main())


@pytest.fixture
def receivers(tmp_path: Path) -> Iterator[Receivers]:
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        yield Receivers(pipeline, writer)


@pytest.mark.parametrize(
    ("signal", "body", "told"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_what_could_reach_another_project_is_refused(
    receivers: Receivers, signal: Signal, body: bytes, told: str
) -> None:
    status, message = receivers.post(signal, body)
    code, same = receivers.call(signal, body)

    assert (status, code) == (403, grpc.StatusCode.PERMISSION_DENIED)
    assert told in message
    assert same == message
    assert receivers.pipeline.stats.num_accepted == 0


@pytest.mark.parametrize(
    ("signal", "body"), [case[1:] for case in ALLOWED], ids=[case[0] for case in ALLOWED]
)
def test_what_names_its_own_run_is_taken(receivers: Receivers, signal: Signal, body: bytes) -> None:
    assert receivers.post(signal, body) == (200, "")
    assert receivers.call(signal, body) == (grpc.StatusCode.OK, "")
    assert receivers.pipeline.stats.num_accepted == 2


@pytest.mark.parametrize(("token", "is_given"), [(BOUND, False), (ANYBODY, True)])
def test_a_bound_sender_is_not_given_the_job_at_its_address(
    receivers: Receivers, token: str, *, is_given: bool
) -> None:
    span = otlp.span("monitor.trace_state", 0, 1, {"rl_insight.lane": "rank_0"})
    body = otlp.traces((of_a(A), [span]))

    assert receivers.post("traces", body, token) == (200, "")

    assert receivers.pipeline.drain(60)
    (raw,) = receivers.writer.records.raw_spans
    assert ("longpole.job" in raw.resource) is is_given
