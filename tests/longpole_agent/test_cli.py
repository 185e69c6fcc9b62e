import gzip
import itertools
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from longpole_agent.receiver.listen import bind
from support.agent_process import AgentProcess
from support.agent_upstream import FakeServer, Request
from support.agent_waiting import wait_until
from support.kubelet import Kubelet
from support.nvml_stub import DRIVER_NOT_LOADED, GPU_IS_LOST, UNKNOWN, NvmlStub
from support.reserved_port import reserved_port

pytestmark = pytest.mark.integration

PROTOBUF = {"Content-Type": "application/x-protobuf"}
JSON = {"Content-Type": "application/json; charset=utf-8"}
MAX_RESIDENT_BYTES = 80 << 20

StartAgent = Callable[..., AgentProcess]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    made = FakeServer()
    yield made
    made.close()


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[StartAgent]:
    """Start agents without GPUs unless told otherwise; a second one takes over the directory."""
    agents: list[AgentProcess] = []

    def start(
        server: str, *arguments: str, environment: dict[str, str] | None = None, name: str = "agent"
    ) -> AgentProcess:
        directory = tmp_path / name
        directory.mkdir(exist_ok=True)
        if environment is None:
            arguments = ("--no-nvml", *arguments)
        agents.append(AgentProcess(directory, server, *arguments, environment=environment))
        return agents[-1]

    yield start
    for agent in agents:
        agent.kill()


@pytest.fixture
def nobody() -> Iterator[str]:
    """The address of a server that is not there (yet)."""
    with reserved_port() as port:
        yield f"http://127.0.0.1:{port}"


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])


def unique_ids(requests: list[Request]) -> dict[str, bytes]:
    """Return bodies by batch id; a repeated id must carry the same body."""
    bodies: dict[str, bytes] = {}
    for request in requests:
        assert bodies.setdefault(request.batch_id, request.body) == request.body
    return bodies


def values_of(request: Request) -> dict[str, dict[str, float]]:
    """Return GPU -> metric -> value of a metrics request."""
    found: dict[str, dict[str, float]] = {}
    decoded = ExportMetricsServiceRequest.FromString(request.body)
    for metric in decoded.resource_metrics[0].scope_metrics[0].metrics:
        for point in [*metric.gauge.data_points, *metric.sum.data_points]:
            attributes = {one.key: one.value.string_value for one in point.attributes}
            if "hw.id" in attributes:
                values = found.setdefault(attributes["hw.id"], {})
                values[metric.name] = point.as_double or float(point.as_int)
    return found


def find_values(requests: list[Request], name: str, key: str) -> set[str]:
    """Return the values that points of a gauge or sum have for an attribute."""
    return {
        attribute.value.string_value
        for request in requests
        for metric in ExportMetricsServiceRequest.FromString(request.body)
        .resource_metrics[0]
        .scope_metrics[0]
        .metrics
        if metric.name == name
        for point in (*metric.gauge.data_points, *metric.sum.data_points)
        for attribute in point.attributes
        if attribute.key == key
    }


def test_trainers_data_passes_through_unchanged(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    agent = start_agent(server.url, "--token-file", str(token))
    compressed = gzip.compress(b"\x0a\x00\x0a\x00")  # two empty ResourceLogs
    sent = [
        ("/v1/traces", b"\x0a\x00", PROTOBUF),
        ("/v1/metrics", b'{"resourceMetrics":[]}', JSON),
        ("/v1/logs", compressed, {**PROTOBUF, "Content-Encoding": "gzip"}),
    ]
    for path, body, headers in sent:
        status, _, answer = agent.post(path, body, headers)
        assert status == 200
        assert answer == (b"{}" if headers is JSON else b"")
    wait_until(lambda: {body for _, body, _ in sent} <= {one.body for one in server.accepted})
    for path, body, headers in sent:
        (request,) = [one for one in server.accepted if one.body == body]
        assert request.path == path
        assert request.headers["content-type"] == headers["Content-Type"]
        assert request.headers.get("content-encoding") == headers.get("Content-Encoding")
        assert request.headers["authorization"] == "Bearer secret"
        assert len(request.batch_id.split("/")) == 3
    assert agent.stop() == 0


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_opentelemetry_sdk_sends_spans_through_it(
    server: FakeServer, start_agent: StartAgent, protocol: str
) -> None:
    agent = start_agent(server.url)
    ports = agent.ports()
    exporter: SpanExporter
    if protocol == "http":
        exporter = HttpSpanExporter(endpoint=f"http://127.0.0.1:{ports['http']}/v1/traces")
    else:
        exporter = GrpcSpanExporter(
            endpoint=f"http://127.0.0.1:{ports['grpc']}",
            insecure=True,
            compression=grpc.Compression.Gzip,
        )
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("rl.loop") as span:
        span.set_attribute("rl.loop.iteration", 7)
    provider.shutdown()
    (request,) = server.wait_for(1, "/v1/traces")
    # What came compressed is passed on as it came.
    is_compressed = request.headers.get("content-encoding") == "gzip"
    assert is_compressed == (protocol == "grpc")
    body = gzip.decompress(request.body) if is_compressed else request.body
    decoded = ExportTraceServiceRequest.FromString(body)
    (decoded_span,) = decoded.resource_spans[0].scope_spans[0].spans
    assert decoded_span.name == "rl.loop"
    assert agent.stop() == 0


def test_a_server_that_is_away_costs_nothing(nobody: str, start_agent: StartAgent) -> None:
    agent = start_agent(nobody, "--interval-s", "60")
    bodies = [b'{"batch":%d}' % number for number in range(50)]
    for body in bodies[:25]:
        assert agent.post("/v1/traces", body, JSON)[0] == 200
    wait_until(lambda: agent.health()["status"] == "degraded")
    assert agent.health()["trouble"] == "Connection refused"
    assert agent.stop() == 0  # what is not delivered stays
    agent = start_agent(nobody, "--interval-s", "60")
    for body in bodies[25:]:
        assert agent.post("/v1/traces", body, JSON)[0] == 200
    assert agent.health()["spool"]["records"] >= 50
    server = FakeServer(port_of(nobody))
    try:
        server.wait_for(50, "/v1/traces")
        assert list(unique_ids(server.accepted_at("/v1/traces")).values()) == bodies
        assert agent.stop() == 0
    finally:
        server.close()


def test_a_server_in_trouble_gets_every_batch_under_one_id(
    server: FakeServer, start_agent: StartAgent
) -> None:
    statuses = itertools.cycle([503, 429, 0, 200])
    server.answer = lambda _: (next(statuses), {"Retry-After": "0"})
    agent = start_agent(server.url, "--interval-s", "60")
    bodies = [b'{"batch":%d}' % number for number in range(3)]
    for body in bodies:
        assert agent.post("/v1/logs", body, JSON)[0] == 200
    server.wait_for(3, "/v1/logs")
    sent = [request for request in list(server.requests) if request.path == "/v1/logs"]
    assert list(unique_ids(sent).values()) == bodies
    assert agent.health()["rejected"] == 0
    assert agent.stop() == 0


def test_what_the_server_refuses_for_good_is_dropped_and_counted(
    server: FakeServer, start_agent: StartAgent
) -> None:
    server.answer = lambda request: (400 if b"bad" in request.body else 200, {})
    agent = start_agent(server.url, "--interval-s", "60")
    for body in (b'{"bad":1}', b'{"good":1}'):
        agent.post("/v1/logs", body, JSON)
    assert server.wait_for(1, "/v1/logs")[0].body == b'{"good":1}'
    assert agent.health()["rejected"] == 1
    assert agent.stop() == 0
    assert "dropped: 400 the server says no" in agent.log


def test_a_killed_agent_loses_nothing_it_acknowledged(nobody: str, start_agent: StartAgent) -> None:
    bodies = [b'{"batch":%d}' % number for number in range(30)]
    for part in range(3):
        agent = start_agent(nobody, "--interval-s", "60")
        for body in bodies[part * 10 : part * 10 + 10]:
            assert agent.post("/v1/traces", body, JSON)[0] == 200
        agent.kill()
    server = FakeServer(port_of(nobody))
    try:
        agent = start_agent(nobody, "--interval-s", "60")
        server.wait_for(30, "/v1/traces")
        delivered = unique_ids(server.accepted_at("/v1/traces"))
        assert list(delivered.values()) == bodies
        boots = [batch_id.rsplit("/", 1)[0] for batch_id in delivered]
        assert len(set(boots)) == 3  # each under the id of the agent that acknowledged it
        assert agent.stop() == 0
    finally:
        server.close()


def test_an_agent_killed_while_delivering_repeats_ids_only(
    server: FakeServer, start_agent: StartAgent
) -> None:
    num_sent = 0
    for _ in range(3):
        agent = start_agent(server.url, "--interval-s", "60")
        for _ in range(20):
            body = b'{"batch":%d}' % num_sent
            assert agent.post("/v1/traces", body, JSON)[0] == 200
            num_sent += 1
        agent.kill()
    agent = start_agent(server.url, "--interval-s", "60")
    wait_until(lambda: len(unique_ids(server.accepted_at("/v1/traces"))) >= num_sent)
    bodies = list(unique_ids(server.accepted_at("/v1/traces")).values())
    assert bodies == [b'{"batch":%d}' % number for number in range(num_sent)]
    agent.ports()
    assert agent.stop() == 0


def test_hostile_requests_get_a_4xx_and_reach_nobody(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = start_agent(server.url, "--interval-s", "60", "--max-request-bytes", "100000")
    bomb = gzip.compress(bytes(10_000_000))
    cases: list[tuple[bytes, dict[str, str], int]] = [
        (b"x" * 100_001, PROTOBUF, 413),
        (bomb, {**PROTOBUF, "Content-Encoding": "gzip"}, 413),
        (bomb[:-4], {**PROTOBUF, "Content-Encoding": "gzip"}, 413),
        (b"no gzip", {**PROTOBUF, "Content-Encoding": "gzip"}, 400),
        (b"\xff\xff no request", PROTOBUF, 400),
        (b"[1]", JSON, 400),
        (b"x", {"Content-Type": "text/html"}, 415),
        (b"x", {}, 415),
    ]
    for body, headers, status in cases:
        assert agent.post("/v1/traces", body, headers)[0] == status
    assert agent.post("/v1/traces", b"{}", JSON)[0] == 200
    assert [one.body for one in server.wait_for(1, "/v1/traces")] == [b"{}"]
    assert agent.stop() == 0


def test_simulated_gpus_and_the_node_are_sampled(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    gpus = tmp_path / "gpus.json"
    agent = start_agent(
        server.url, "--simulated-gpus", str(gpus), "--interval-s", "0.05", "--host-name", "node-7"
    )
    # On a busy machine what is slow to read comes with a later tick.
    wait_until(lambda: any(b"system.cpu.utilization" in one.body for one in server.accepted))
    for request in server.accepted_at("/v1/metrics"):
        assert b"node-7" in request.body
        assert values_of(request) == {}
    levels = {"utilization_ratio": 0.5, "power_watts": 300.0}
    gpu = {"index": 0, "uuid": "GPU-a", "model": "H100", "pid": 1, "levels": levels}
    gpus.with_suffix(".new").write_text(json.dumps({"version": 1, "stage": "gen", "gpus": [gpu]}))
    gpus.with_suffix(".new").replace(gpus)

    def find_values_of_gpu() -> list[dict[str, float]]:
        return [
            found["GPU-a"]
            for found in map(values_of, server.accepted_at("/v1/metrics"))
            if "GPU-a" in found
        ]

    wait_until(lambda: bool(find_values_of_gpu()))
    assert find_values_of_gpu()[-1]["hw.gpu.utilization"] == pytest.approx(0.5, rel=0.05)
    assert agent.stop() == 0


def test_real_pynvml_is_sampled_live_through_loss_and_return(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpus = [stub.add_device() for _ in range(8)]
    agent = start_agent(
        server.url,
        *("--interval-s", "0.05", "--nvml-retry-s", "0.1"),
        environment=stub.environment,
    )

    def newest() -> dict[str, dict[str, float]]:
        return values_of(server.wait_for(1, "/v1/metrics")[-1])

    wait_until(lambda: len(newest()) == 8)
    for level in (12, 88):
        gpus[3].utilization_percent = level
        expected = pytest.approx(level / 100)
        wait_until(
            lambda e=expected: newest().get("GPU-00000003", {}).get("hw.gpu.utilization") == e
        )
    assert agent.get("/ready") == 200
    gpus[3].error = GPU_IS_LOST
    wait_until(lambda: len(newest()) == 7)
    assert (agent.get("/ready"), agent.get("/live")) == (503, 200)
    assert "GPU-00000003 is lost" in agent.health()["trouble"]
    gpus[3].error = 0
    wait_until(lambda: agent.get("/ready") == 200)
    wait_until(lambda: len(newest()) == 8)
    status = Path(f"/proc/{agent.pid}/status").read_text()
    resident_kib = int(status.split("VmRSS:")[1].split()[0])
    assert resident_kib * 1024 < MAX_RESIDENT_BYTES
    assert agent.stop(signal.SIGINT) == 0
    assert "GPU GPU-00000003 is back" in agent.log


def test_a_container_without_its_gpus_is_not_alive(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    agent = start_agent(
        server.url,
        *("--interval-s", "0.05", "--nvml-retry-s", "0.01"),
        environment=stub.environment,
    )
    wait_until(lambda: bool(values_of(server.wait_for(1, "/v1/metrics")[-1])))
    gpu.error = stub.state.init_error = UNKNOWN
    wait_until(lambda: agent.get("/live") == 503)
    assert agent.get("/ready") == 503
    assert agent.get("/health") == 200
    # A page of a stranger, whose name was made to lead to this machine.
    assert agent.get("/health", "rebound.example") == 403
    assert agent.get("/metrics", "rebound.example") == 403
    # No zeros either, once what was sampled before is delivered.
    wait_until(lambda: not values_of(server.accepted_at("/v1/metrics")[-1]))
    gpu.error = stub.state.init_error = 0
    wait_until(lambda: agent.get("/live") == agent.get("/ready") == 200)
    assert agent.stop() == 0


def test_without_a_driver_the_agent_goes_on(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    agent = start_agent(
        server.url, "--interval-s", "0.05", environment={"LD_LIBRARY_PATH": str(tmp_path)}
    )
    server.wait_for(3, "/v1/metrics")
    assert agent.health()["status"] == "ok"
    assert (agent.get("/ready"), agent.get("/live")) == (200, 200)
    assert agent.stop() == 0
    assert agent.log.count("no NVIDIA driver on this node") == 1


def test_a_node_that_must_have_gpus_is_not_ready_without(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    stub.state.init_error = DRIVER_NOT_LOADED
    agent = start_agent(
        server.url,
        *("--interval-s", "0.05", "--nvml-retry-s", "0.01", "--require-gpus"),
        environment=stub.environment,
    )
    assert (agent.get("/ready"), agent.get("/live")) == (503, 200)
    assert agent.health()["trouble"] == "no GPU has answered yet"
    stub.add_device()
    stub.state.init_error = 0
    wait_until(lambda: agent.get("/ready") == 200)
    assert agent.stop() == 0


def test_a_taken_port_is_one_line_and_the_other_listener_works(
    server: FakeServer, start_agent: StartAgent
) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        agent = start_agent(server.url, "--otlp-grpc-port", str(port))
        assert agent.ports()["grpc"] is None
        assert agent.post("/v1/traces", b"{}", JSON)[0] == 200
        server.wait_for(1, "/v1/traces")
        assert agent.stop() == 0
        (line,) = [line for line in agent.log.splitlines() if "cannot receive" in line]
        assert f"OTLP/gRPC on 127.0.0.1:{port}: Address already in use; going on without" in line


def test_both_ports_taken_still_samples_unless_they_are_required(
    server: FakeServer, start_agent: StartAgent
) -> None:
    with bind("127.0.0.1", 0) as taken:
        port = str(taken.getsockname()[1])
        ports = ("--otlp-grpc-port", port, "--otlp-http-port", port, "--interval-s", "0.05")
        agent = start_agent(server.url, *ports)
        server.wait_for(1, "/v1/metrics")
        assert agent.stop() == 0
        agent = start_agent(server.url, *ports, "--require-otlp", name="strict")
        assert agent.wait() == 2
        assert agent.log.splitlines()[-1].startswith("longpole agent: cannot receive OTLP/HTTP on")


def test_a_second_agent_of_one_directory_is_told_so(
    server: FakeServer, start_agent: StartAgent
) -> None:
    agent = start_agent(server.url)
    agent.ports()
    second = start_agent(server.url, "--ports-file", str(agent.directory / "other.json"))
    assert second.wait() == 2
    assert f"is in use by process {agent.pid}; choose another --data-dir" in second.log
    assert "Traceback" not in second.log
    assert agent.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--server", "nonsense"), "'nonsense' is no address of a server"),
        (("--otlp-http-port", "x"), "--otlp-http-port: 'x'"),
        (("--data-dir", "/proc/nowhere"), "/proc/nowhere"),
    ],
)
def test_what_cannot_be_met_is_one_line_and_status_2(
    start_agent: StartAgent, arguments: tuple[str, ...], message: str
) -> None:
    agent = start_agent("http://127.0.0.1:1", *arguments)
    assert agent.wait() == 2
    (line,) = agent.log.splitlines()
    assert line.startswith("longpole agent: ")
    assert message in line


def test_jobs_of_gpu_processes_and_pods_of_gpus_are_sent(
    server: FakeServer, start_agent: StartAgent, tmp_path: Path
) -> None:
    stub = NvmlStub(tmp_path / "nvml")
    gpu = stub.add_device()
    with TemporaryDirectory(prefix="longpole") as directory:
        socket = Path(directory) / "kubelet.sock"
        kubelet = Kubelet(socket)
        kubelet.pods = {"rl/trainer-0": {"main": {"nvidia.com/gpu": ["GPU-00000000"]}}}
        with subprocess.Popen(
            ["/bin/cat"], stdin=subprocess.PIPE, env={"SLURM_JOB_ID": "77"}
        ) as trainer:
            gpu.pids[0] = trainer.pid
            agent = start_agent(
                server.url,
                *("--interval-s", "0.05", "--pod-resources-socket", str(socket)),
                environment=stub.environment,
            )

            def find(metric: str, key: str) -> set[str]:
                return find_values(server.accepted_at("/v1/metrics"), metric, key)

            wait_until(lambda: find("process.gpu.memory.usage", "slurm.job.id") == {"77"})
            wait_until(lambda: find("hw.gpu.allocation", "k8s.pod.name") == {"trainer-0"})
            assert agent.stop() == 0
            trainer.communicate()
        kubelet.close()
    assert agent.log.count("the kubelet tells which pod holds which GPU") == 1
