from longpole.conventions import attributes as names
from longpole_sim.engine_requests import RequestReporter
from longpole_sim.plan import PartPlan, TrajectoryPlan
from support.sim_fake_server import FakeServer, Span, run_fake_server

ORIGIN_NS = 1_000_000_000_000
PARTS = (
    PartPlan("queue", "engine", 1.0, 1.5),
    PartPlan("generate", "turn 1", 1.5, 4.0, 100.0),
    PartPlan("tool", "python", 4.0, 5.0),
    PartPlan("generate", "turn 2", 5.0, 6.0, 50.0),
)
SAMPLE = TrajectoryPlan(
    "0001-002-3", "g", "replica-1", 0, 1.0, 6.0, PARTS, 10_500, 150, 2, "done", 1.0, 0,
    cached_tokens=500,
)  # fmt: skip


def send(endpoint: str, *samples: TrajectoryPlan, speed: float = 1.0) -> None:
    resources = {"replica-1": {names.SERVICE_INSTANCE_ID: "replica-1", names.GPU_IDS: ["GPU-a"]}}
    reporter = RequestReporter(endpoint, resources, speed)
    for sample in samples:
        reporter.add(sample, ORIGIN_NS)
    reporter.send()


def received(server: FakeServer) -> list[Span]:
    return server.received.named("llm_request")


def test_a_request_a_turn_with_its_queue_and_its_first_token() -> None:
    with run_fake_server() as server:
        send(server.address, SAMPLE)
        first, second = received(server)
    assert (first.start_ns, first.end_ns) == (ORIGIN_NS + 10**9, ORIGIN_NS + 4 * 10**9)
    assert first.attributes["gen_ai.latency.time_in_queue"] == 0.5
    # 10,000 tokens that no cache holds, 20,000 a second.
    assert first.attributes["gen_ai.latency.time_in_model_prefill"] == 0.5
    assert first.attributes["gen_ai.latency.time_to_first_token"] == 1.0
    assert first.attributes[names.OUTPUT_TOKENS] == 100
    assert first.attributes[names.REQUEST_ID] == "0001-002-3"
    assert first.resource[names.GPU_IDS] == ("GPU-a",)
    assert second.start_ns == ORIGIN_NS + 5 * 10**9
    assert second.attributes["gen_ai.latency.time_in_queue"] == 0.0
    assert second.attributes["gen_ai.latency.time_in_model_prefill"] == 0.0


def test_most_of_a_request_decodes() -> None:
    with run_fake_server() as server:
        send(server.address, SAMPLE, speed=0.01)
        first, _ = received(server)
    assert first.attributes["gen_ai.latency.time_in_model_prefill"] == 1.25


def test_without_an_agent_requests_are_lost() -> None:
    send("http://127.0.0.1:9", SAMPLE)


def test_requests_never_pile_up() -> None:
    with run_fake_server() as server:
        reporter = RequestReporter(server.address, {"replica-1": {}}, 1.0, max_waiting=600)
        for _ in range(400):
            reporter.add(SAMPLE, ORIGIN_NS)
        reporter.send()
        assert len(received(server)) == 600
        reporter.send()
        assert len(received(server)) == 600
