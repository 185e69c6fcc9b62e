"""Batches as columns, and what ties spans of different senders together."""

import pytest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp

JOB = {"longpole.job": "ray/s/01"}
HUB = otlp.resource({"service.name": "rl_insight_monitor", "host.name": "node0", **JOB})
CONTROLLER = otlp.process("proj/ppo", longpole__job="ray/s/01")
WORKER = otlp.process(None, role="hybrid", pid=9, longpole__job="ray/s/01")


def add(
    normalizer: Normalizer, sender: Resource, *spans: Span, at_s: float = 9
) -> tuple[bool, Records]:
    records = Records()
    body = otlp.traces((sender, spans))
    return normalizer.normalize_many("traces", [(body, otlp.at(at_s))], records), records


@pytest.mark.parametrize(
    ("sender", "span"),
    [
        (HUB, otlp.span("actor_update", 1, 2, {"state_lane_id": "rank_0"})),
        (WORKER, otlp.stage("actor_update", 1, 1, 2)),
        (otlp.resource(service__name="sglang"), otlp.span("unified Req 1234abcd", 1, 2)),
        (CONTROLLER, otlp.span("rl.trajectory", 1, 2, {"gen_ai.request.id": "r"})),
    ],
    ids=["lane", "worker of a job", "sglang", "sample with requests"],
)
def test_what_belongs_to_what_others_send_is_read_one_by_one(sender: Resource, span: Span) -> None:
    normalizer = Normalizer(min_column_bytes=0)
    was_added, records = add(normalizer, sender, span)
    assert not was_added
    assert len(records) == 0
    assert normalizer.num_unfit_batches == 0


def test_requests_of_an_engine_are_columns_and_found_by_their_samples() -> None:
    engine = otlp.resource(service__name="vllm", longpole__job="ray/s/01")
    asked = [
        otlp.span(
            "llm_request",
            1,
            3,
            {
                "gen_ai.request.id": f"chatcmpl-t{number}-0",
                "gen_ai.latency.time_in_queue": 0.5,
                "gen_ai.latency.time_to_first_token": 0.75,
                "gen_ai.usage.prompt_tokens": 10 + number,
            },
            parent=b"\x07" * 8 if number else b"",
        )
        for number in range(3)
    ]
    sample = otlp.span("rl.trajectory", 1, 4, {"rl.trajectory.id": "t1"})
    found: list[list[str]] = []
    for min_column_bytes in (0, 1 << 30):
        normalizer = Normalizer(min_column_bytes=min_column_bytes)
        was_added, records = add(normalizer, engine, *asked)
        if not was_added:
            body = otlp.traces((engine, asked))
            normalizer.normalize("traces", body, otlp.at(9), records)
        assert was_added == (min_column_bytes == 0)
        assert normalizer.stats.num_waiting == 3
        normalizer.normalize("traces", otlp.traces((CONTROLLER, [sample])), otlp.at(9), records)
        found.append([repr(each) for each in (*records.trajectories, *records.trajectory_spans)])
    assert found[0] == found[1]
    assert len(found[0]) == 5


def test_a_controller_s_batch_names_its_job_and_ends_its_steps() -> None:
    normalizer = Normalizer(min_column_bytes=0)
    early = Records()
    lane = otlp.span("actor_update", 1, 2, {"state_lane_id": "rank_0"})
    normalizer.normalize("traces", otlp.traces((HUB, [lane])), otlp.at(3), early)
    assert not early.stage_spans
    was_added, records = add(normalizer, CONTROLLER, otlp.loop(1, 0, 5))
    assert was_added
    assert {(span.step, span.stage) for span in records.stage_spans} == {
        (1, "step"),
        (1, "update_actor"),
    }


def test_samples_are_looked_at_while_requests_of_engines_wait() -> None:
    normalizer = Normalizer(min_column_bytes=0)
    sample = otlp.span("rl.trajectory", 1, 2, {"rl.trajectory.id": "t"})
    assert add(normalizer, CONTROLLER, sample)[0]
    request = otlp.span("llm_request", 1, 2, {"gen_ai.request.id": "t2"})
    engine = otlp.resource(service__name="vllm")
    normalizer.normalize("traces", otlp.traces((engine, [request])), otlp.at(3), Records())
    assert not add(normalizer, CONTROLLER, sample)[0]


def test_an_engine_of_requests_alone_takes_part_however_it_is_read() -> None:
    engine = otlp.process(
        role="rollout", pid=7, service__instance__id="replica-0", rl__gpu__ids=["GPU-a", "GPU-b"]
    )
    stranger = otlp.resource(service__name="vllm")
    asked = [otlp.span("llm_request", 1, end_s, {"gen_ai.request.id": "t"}) for end_s in (3, 5)]
    body = otlp.traces((stranger, asked), (engine, asked))
    columns, single = Records(), Records()
    assert Normalizer(min_column_bytes=0).normalize_many("traces", [(body, otlp.at(9))], columns)
    Normalizer().normalize("traces", body, otlp.at(9), single)
    assert columns.processes == single.processes
    assert [(each.instance, each.gpu_ids, each.seen_ns) for each in columns.processes] == [
        ("replica-0", ("GPU-a", "GPU-b"), otlp.at(5))
    ]
    assert not columns.run_starts
