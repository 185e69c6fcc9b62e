import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.ingest.normalize.spans import name_without_ids
from longpole_server.model.records import Records, TrajectorySpan
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

TRAINER = otlp.process(role="agent_loop")
SPAN, TRACE = b"12345678", b"1234567812345678"
ENGINE = otlp.resource(service__name="vllm")
LATENCIES = {"gen_ai.latency.time_in_queue": 0.5, "gen_ai.latency.e2e": 2.0}
USAGE = {"gen_ai.usage.prompt_tokens": 11, "gen_ai.usage.completion_tokens": 7}


def request(request_id: str, span: str = "aa", **values: object) -> Span:
    named = {"gen_ai.request.id": request_id, **LATENCIES, **USAGE, **values}
    return otlp.span("llm_request", 2, 4, named, id=span.encode() * 4)


def sample(trajectory_id: str, **values: object) -> Span:
    named = {"rl.trajectory.id": trajectory_id, "rl.loop.iteration": 3, **values}
    return otlp.span("rl.trajectory", 1, 5, named, id=SPAN, trace=TRACE)


def parts(records: Records) -> list[tuple[str, str, float, float, int | None]]:
    return [
        (
            part.trajectory_id,
            part.kind,
            (part.start_ns - otlp.at(0)) / 1e9,
            (part.end_ns - otlp.at(0)) / 1e9,
            part.output_tokens,
        )
        for part in records.trajectory_spans
    ]


LINKED = [("t1", "queue", 2.0, 2.5, None), ("t1", "generate", 2.5, 4.0, 7)]


@pytest.mark.parametrize(
    "request_id",
    ["t1", "cmpl-t1-0", "chatcmpl-t1", "t1-0123abcd", "cmpl-t1-0-0123abcd"],
)
def test_a_request_waits_for_the_sample_of_its_id(request_id: str) -> None:
    feed = Feed()
    early = feed.traces(ENGINE, [request(request_id)], at_s=4)
    assert not early.trajectory_spans
    assert feed.normalizer.stats.num_waiting == 1
    records = feed.traces(TRAINER, [sample("t1")], at_s=5)
    assert parts(records) == LINKED
    assert records.trajectories[0].queue_s == 0.5
    assert feed.normalizer.stats.num_waiting == 0


def test_a_late_request_finds_its_sample() -> None:
    feed = Feed()
    feed.traces(TRAINER, [sample("group/0", **{"gen_ai.request.id": "r9"})], at_s=5)
    records = feed.traces(ENGINE, [request("r9")], at_s=6)
    assert [part.trajectory_id for part in records.trajectory_spans] == ["group/0"] * 2
    # The sample is written again, with the time it waited.
    (again,) = records.trajectories
    assert (again.trajectory_id, again.step, again.queue_s) == ("group/0", 3, 0.5)
    more = feed.traces(ENGINE, [request("r9", "a9")], at_s=7)
    assert [record.queue_s for record in more.trajectories] == [1.0]
    said = sample("group/1", **{"rl.trajectory.queue_seconds": 3.0})
    feed.traces(TRAINER, [said], at_s=8)
    assert not feed.traces(ENGINE, [request("group/1", "b9")], at_s=9).trajectories


def test_a_sample_of_several_requests_sums_their_queues_and_says_its_own_first() -> None:
    feed = Feed()
    feed.traces(ENGINE, [request("t1", "a1"), request("t1", "a2")], at_s=4)
    assert feed.traces(TRAINER, [sample("t1")], at_s=5).trajectories[0].queue_s == 1.0
    feed.traces(ENGINE, [request("t2")], at_s=4)
    said = sample("t2", **{"rl.trajectory.queue_seconds": 3.0})
    assert feed.traces(TRAINER, [said], at_s=5).trajectories[0].queue_s == 3.0


def test_trace_context_links_too() -> None:
    feed = Feed()
    span = otlp.span("llm_request", 2, 4, LATENCIES, parent=SPAN, trace=TRACE)
    feed.traces(ENGINE, [span], at_s=4)
    records = feed.traces(TRAINER, [sample("t1")], at_s=5)
    assert [part.trajectory_id for part in records.trajectory_spans] == ["t1", "t1"]


def test_sglang_s_request_is_known_by_its_rid_and_named_without_it() -> None:
    feed = Feed()
    span = otlp.span(" Req 1234abcd", 2, 4, {"rid": "t1", **LATENCIES})
    early = feed.traces(ENGINE, [span], at_s=4)
    assert [raw.name for raw in early.raw_spans] == ["Req"]
    assert parts(feed.traces(TRAINER, [sample("t1")], at_s=5)) == [
        ("t1", "queue", 2.0, 2.5, None),
        ("t1", "generate", 2.5, 4.0, None),
    ]


@pytest.mark.parametrize(
    ("latencies", "prefill_s"),
    [
        ({"gen_ai.latency.time_in_model_prefill": 0.25}, 0.25),
        ({"gen_ai.latency.time_to_first_token": 0.75}, 0.25),
        ({"gen_ai.latency.time_to_first_token": 0.2}, 0.0),
        ({"gen_ai.latency.time_in_model_prefill": 99.0}, 1.5),
    ],
    ids=["measured", "first token", "first token before the queue's end", "longer than all"],
)
def test_generating_is_split_where_the_first_token_came(
    latencies: dict[str, float], prefill_s: float
) -> None:
    feed = Feed()
    feed.traces(ENGINE, [request("t1", "aa", **latencies)], at_s=4)
    records = feed.traces(TRAINER, [sample("t1")], at_s=5)
    first_s = 2.5 + prefill_s
    decode = [("t1", "decode", first_s, 4.0, 7)] if first_s < 4 else []
    assert parts(records) == [*LINKED, ("t1", "prefill", 2.5, first_s, None), *decode]
    assert [part.input_tokens for part in records.trajectory_spans if part.kind == "prefill"] == [
        11
    ]
    assert len({part.span_id for part in records.trajectory_spans}) == len(parts(records))


def test_a_first_token_without_a_known_queue_splits_nothing() -> None:
    feed = Feed()
    named = {"gen_ai.request.id": "t1", "gen_ai.latency.time_to_first_token": 0.75}
    feed.traces(ENGINE, [otlp.span("llm_request", 2, 4, named)], at_s=4)
    records = feed.traces(TRAINER, [sample("t1")], at_s=5)
    assert [part.kind for part in records.trajectory_spans] == ["generate"]


def test_what_nobody_asks_for_stays_raw() -> None:
    feed = Feed()
    records = feed.traces(ENGINE, [request("other")], at_s=4)
    assert len(records.raw_spans) == 1
    assert not records.run_starts
    later = feed.traces(TRAINER, [sample("t1")], at_s=5)
    assert later.trajectory_spans == list[TrajectorySpan]()


@pytest.mark.parametrize(
    "name",
    ["Overall Loading", "Load model", "Load weights", "Worker init", "EngineCoreProc init"],
)
def test_an_engine_s_start_is_no_stage(name: str) -> None:
    span = otlp.span(name, 1, 9)
    records = Feed().traces(ENGINE, [span], at_s=9)
    assert len(records.raw_spans) == 1
    assert not records.stage_spans
    assert not records.run_starts


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("unified Req 1234abcd", "unified Req"),
        ("prefill Req deadbeef", "prefill Req"),
        (" Req 1234abcd", "Req"),
        ("scheduler [TP 0] (host:12345678 | pid:77)", "scheduler [TP 0]"),
        ("rl.loop", "rl.loop"),
        ("execute_tool search (web)", "execute_tool search (web)"),
        ("Request", "Request"),
    ],
)
def test_names_without_what_is_new_in_every_span(name: str, without: str) -> None:
    assert name_without_ids(name) == without


def test_an_engine_that_tells_of_requests_alone_takes_part_with_the_gpus_it_names() -> None:
    engine = otlp.process(
        role="rollout", pid=7, service__instance__id="replica-0", rl__gpu__ids=["GPU-a", "GPU-b"]
    )
    records = Feed().traces(engine, [request("t1")], at_s=4)
    assert [(each.instance, each.pid, each.gpu_ids) for each in records.processes] == [
        ("replica-0", 7, ("GPU-a", "GPU-b"))
    ]
    assert not records.run_starts, "requests prove no training run"


def test_an_engine_that_names_no_run_takes_part_in_none() -> None:
    assert not Feed().traces(ENGINE, [request("t1")], at_s=4).processes
