import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from longpole_server.model.records import RawSpan, StageSpan
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

TRACE, LOOP, CHILD = b"t" * 16, b"l" * 8, b"c" * 8


def windows(spans: list[StageSpan]) -> list[tuple[str, int]]:
    return [(span.stage, span.step) for span in spans]


def test_every_span_is_kept_raw() -> None:
    sender = otlp.resource(service__name="api", host__name="node1")
    span = otlp.span(
        "GET /", 1, 3, {"http.status": 200, "gen_ai.prompt": "x"}, trace=TRACE, id=LOOP
    )
    span.trace_state = "a=b"
    span.status.code = Status.STATUS_CODE_ERROR
    span.status.message = "failed"
    span.kind = Span.SPAN_KIND_SERVER
    span.events.add(name="retry", time_unix_nano=otlp.at(2), attributes=otlp.attributes({"n": 1}))
    span.links.add(trace_id=TRACE, span_id=CHILD, attributes=otlp.attributes({"content": "x"}))

    (raw,) = Feed().traces(sender, [span], at_s=3).raw_spans

    assert raw == RawSpan(
        ts_ns=otlp.at(1),
        duration_ns=2 * otlp.NS,
        trace_id=TRACE.hex(),
        span_id=LOOP.hex(),
        parent_span_id="",
        trace_state="a=b",
        name="GET /",
        kind="Server",
        service_name="api",
        resource={"service.name": "api", "host.name": "node1"},
        scope_name="tests",
        scope_version="1",
        attributes={"http.status": "200"},
        status_code="Error",
        status_message="failed",
        events=((otlp.at(2), "retry", {"n": "1"}),),
        links=((TRACE.hex(), CHILD.hex(), "", {}),),
    )


def test_text_stays_when_the_operator_asks_for_it() -> None:
    span = otlp.span("chat", 1, 3, {"gen_ai.prompt": "hello"})

    (raw,) = Feed(keep_text=True).traces(otlp.resource(), [span], at_s=3).raw_spans

    assert raw.attributes == {"gen_ai.prompt": "hello"}


def test_the_step_and_its_stages() -> None:
    loop = otlp.loop(
        7,
        10,
        20,
        values={"rl.tokens.total": 30, "rl.tokens.prompt": 10, "rl.tokens.response": 20},
        trace=TRACE,
        id=LOOP,
    )
    stage = otlp.stage("gen", 7, 10, 15, trace=TRACE, id=CHILD, parent=LOOP)

    records = Feed().traces(otlp.process(), [stage, loop], at_s=20)

    assert records.stage_spans == [
        StageSpan(
            run_id="run",
            attempt=1,
            step=7,
            stage="gen",
            name="rl.stage",
            start_ns=otlp.at(10),
            end_ns=otlp.at(15),
            trace_id=TRACE.hex(),
            span_id=CHILD.hex(),
            parent_span_id=LOOP.hex(),
            role="controller",
            host="node0",
            pid=100,
        ),
        StageSpan(
            run_id="run",
            attempt=1,
            step=7,
            stage="step",
            name="rl.loop",
            start_ns=otlp.at(10),
            end_ns=otlp.at(20),
            trace_id=TRACE.hex(),
            span_id=LOOP.hex(),
            role="controller",
            host="node0",
            pid=100,
            is_loop=True,
            tokens_total=30,
            tokens_prompt=10,
            tokens_response=20,
        ),
    ]


def test_standard_names_and_aliases_become_canonical_stages() -> None:
    spans = [
        otlp.span("rl.sample", 1, 2, {"rl.loop.iteration": 1}),
        otlp.span("rl.train", 1, 2, {"rl.loop.iteration": 1}),
        otlp.span("rl.sync", 1, 2, {"rl.loop.iteration": 1}),
        otlp.span("rl.reward", 1, 2, {"rl.loop.iteration": 1}),
        otlp.stage("generate_sequences", 1, 1, 2),
        otlp.stage("my_own_stage", 1, 1, 2),
        otlp.span("rl.sample", 1, 2, {"rl.loop.iteration": 1, "rl.stage": "testing"}),
    ]

    records = Feed().traces(otlp.process(), spans, at_s=2)

    assert [span.stage for span in records.stage_spans] == [
        "gen",
        "update_actor",
        "update_weights",
        "reward",
        "gen",
        "my_own_stage",
        "testing",
    ]


def test_phases_of_a_weight_sync() -> None:
    sync = otlp.span(
        "rl.sync",
        1,
        5,
        {"rl.loop.iteration": 3, "rl.sync.method": "nccl", "rl.sync.bytes": 1024},
        trace=TRACE,
    )
    phase = otlp.span("rl.sync.transfer", 2, 4, {"rl.loop.iteration": 3}, trace=TRACE)

    whole, part = Feed().traces(otlp.process(), [sync, phase], at_s=5).stage_spans

    assert (whole.sync_method, whole.sync_bytes, whole.sync_phase) == ("nccl", 1024, None)
    assert (part.stage, part.sync_phase) == ("update_weights", "transfer")


def test_a_stage_without_iteration_waits_for_the_step_of_its_trace() -> None:
    feed = Feed()
    early = otlp.span("rl.sample", 11, 14, trace=TRACE, id=CHILD, parent=LOOP)
    grandchild = otlp.span("rl.sync.transfer", 12, 13, trace=TRACE, parent=CHILD)
    late = otlp.span("rl.train", 15, 19, trace=TRACE, parent=LOOP)

    waiting = feed.traces(otlp.process(), [early, grandchild], at_s=14)
    closed = feed.traces(otlp.process(), [otlp.loop(4, 10, 20, trace=TRACE, id=LOOP)], at_s=20)
    after = feed.traces(otlp.process(), [late], at_s=21)

    assert waiting.stage_spans == []
    assert windows(closed.stage_spans) == [("step", 4), ("gen", 4), ("update_weights", 4)]
    assert windows(after.stage_spans) == [("update_actor", 4)]
    assert feed.normalizer.stats.num_waiting == 0


def test_one_trace_for_the_whole_training_keeps_steps_apart() -> None:
    feed = Feed()
    sender = otlp.process()
    child = otlp.span("rl.sample", 21, 24, trace=TRACE, parent=b"2" * 8)
    deeper = otlp.span("rl.sync.transfer", 26, 27, trace=TRACE, parent=b"x" * 8)

    feed.traces(sender, [child, deeper], at_s=27)
    first = feed.traces(sender, [otlp.loop(1, 10, 20, trace=TRACE, id=b"1" * 8)], at_s=28)
    second = feed.traces(sender, [otlp.loop(2, 20, 30, trace=TRACE, id=b"2" * 8)], at_s=30)

    assert windows(first.stage_spans) == [("step", 1)]
    assert windows(second.stage_spans) == [("step", 2), ("gen", 2), ("update_weights", 2)]


def test_a_stage_outside_of_any_step_goes_to_the_running_one() -> None:
    feed = Feed()
    feed.traces(otlp.process(), [otlp.loop(4, 10, 20)], at_s=20)

    records = feed.traces(otlp.process(), [otlp.stage("testing", None, 20, 30)], at_s=30)

    assert windows(records.stage_spans) == [("testing", 4)]


def test_pipelines_of_another_system_are_steps_with_their_direct_children() -> None:
    """ROLL sends no `rl.*` name at all."""
    feed = Feed()
    sender = otlp.resource(service__name="driver", host__name="node0", process__pid=3)
    spans = [
        otlp.span("generate", 11, 14, trace=TRACE, id=CHILD, parent=LOOP),
        otlp.span("generate", 12, 13, trace=TRACE, parent=CHILD),
        otlp.span("model_update", 10, 11, trace=TRACE, parent=LOOP),
        otlp.span("stop_server", 10, 10.5, trace=TRACE, parent=LOOP),
    ]
    pipeline = otlp.span("pipeline_step", 10, 20, {"global_step": 6}, trace=TRACE, id=LOOP)

    feed.traces(sender, spans, at_s=14)
    records = feed.traces(sender, [pipeline], at_s=20)

    stages = ["step", "gen", "update_weights", "sleep_wake"]
    assert windows(records.stage_spans) == [(stage, 6) for stage in stages]
    assert [start.run_id for start in records.run_starts] == ["driver@node0"]


def test_timers_of_another_system_count_by_their_last_segment() -> None:
    """NeMo-RL names spans after its timers."""
    sender = otlp.process(rl__system="nemo_rl")
    spans = [
        otlp.span("grpo.total_step_time", 1, 9, {"rl.loop.iteration": 2}),
        otlp.span("grpo.policy_training", 5, 8, {"rl.loop.iteration": 2}),
        otlp.span("grpo.something_else", 5, 8, {"rl.loop.iteration": 2}),
    ]

    records = Feed().traces(sender, spans, at_s=9)

    assert windows(records.stage_spans) == [("step", 2), ("update_actor", 2)]


def test_names_alone_prove_nothing() -> None:
    sender = otlp.process()
    spans = [
        otlp.span("generate", 1, 2),
        otlp.span("train", 1, 2, trace=TRACE, parent=LOOP),
        otlp.span("rl.loop", 1, 2),
    ]

    records = Feed().traces(sender, spans, at_s=2)

    assert records.stage_spans == records.run_starts == []
    assert len(records.raw_spans) == 3


@pytest.mark.parametrize(
    ("start_ns", "end_ns"),
    [
        (0, 0),
        (0, otlp.at(20)),
        (otlp.at(10), 0),
        (otlp.at(10), otlp.at(5)),
        (otlp.at(10), (1 << 63) - 1),
        (otlp.at(10), (1 << 64) - 1),
        # Milliseconds and seconds since 1970, and a machine's uptime, taken for nanoseconds.
        (1_760_000_000_000, 1_760_000_020_000),
        (1_760_000_000, 1_760_000_020),
        (86_400 * otlp.NS, 86_420 * otlp.NS),
    ],
)
@pytest.mark.parametrize("name", ["rl.loop", "rl.sample", "rl.trajectory", "rl.sync.transfer"])
def test_wild_times_make_no_window_and_are_counted(name: str, start_ns: int, end_ns: int) -> None:
    wild = otlp.span(name, 0, 0, {"rl.loop.iteration": 7, "rl.trajectory.id": "t"})
    wild.start_time_unix_nano, wild.end_time_unix_nano = start_ns, end_ns
    feed = Feed()

    records = feed.traces(otlp.process(), [wild, otlp.stage("gen", 7, 1, 2)], at_s=10)

    assert [span.stage for span in records.stage_spans] == ["gen"]
    assert records.trajectories == []
    assert feed.normalizer.stats.num_refused == 1
    # What came stays visible to other tools.
    assert [raw.name for raw in records.raw_spans] == [name, "rl.stage"]


def test_a_clock_that_is_wrong_by_hours_is_a_clock() -> None:
    feed = Feed()

    records = feed.traces(otlp.process(), [otlp.loop(1, 40_000, 40_020)], at_s=10)

    assert len(records.stage_spans) == 1
    assert feed.normalizer.stats.num_refused == 0


@pytest.mark.parametrize("clock_s", [0.0, 1_000_000_000.0])
def test_a_server_whose_own_clock_is_years_behind_takes_others_at_their_word(
    clock_s: float,
) -> None:
    feed = Feed()
    received_s = clock_s - otlp.at(0) / otlp.NS

    records = feed.traces(otlp.process(), [otlp.loop(1, 10, 20)], at_s=received_s)

    assert len(records.stage_spans) == 1
    assert feed.normalizer.stats.num_refused == 0


def test_times_beyond_what_can_be_stored_are_cut() -> None:
    span = otlp.stage("gen", 1, 10, 20)
    span.events.add(time_unix_nano=1 << 63)

    records = Feed().traces(otlp.process(), [span], at_s=20)

    assert records.raw_spans[0].events[0][0] == (1 << 63) - 1


def test_spans_of_the_agent_belong_to_no_run() -> None:
    sender = otlp.resource(service__name="longpole-agent", host__name="node0")

    records = Feed().traces(sender, [otlp.stage("gen", 1, 1, 2)], at_s=2)

    assert len(records) == len(records.raw_spans) == 1
