from dataclasses import replace
from typing import Any

import numpy as np

from longpole.otlp import Encoded, build_scope, encode_resource
from longpole.trajectories import MAX_PARTS, Part, Trajectory, encode_trajectories, weigh_parts
from support.sdk_receiver import ReceivedSpan, decode_spans

NOTHING = Trajectory(*[None] * 20, parts=())  # type: ignore[arg-type]


def make(parts: tuple[Part, ...] = (), **fields: object) -> Trajectory:
    given: dict[str, Any] = {"start_ns": 1_000, "end_ns": 9_000, "phase": "train", **fields}
    return NOTHING._replace(parts=parts, **given)


def encode(*records: tuple[object, ...]) -> Encoded:
    return encode_trajectories(records, encode_resource({"rl.run.id": "r"}), build_scope())


def send(*records: tuple[object, ...]) -> list[ReceivedSpan]:
    return list(decode_spans(encode(*records).body))


def test_everything_said_is_an_attribute() -> None:
    (span,) = send(
        make(
            trajectory_id="t-1",
            iteration=4,
            phase="validation",
            group_id="g-1",
            generate_s=1.5,
            tool_s=0.5,
            score_s=0.25,
            queue_s=0.125,
            paused_s=2,
            input_tokens=100,
            output_tokens=200,
            turns=3,
            preemptions=-1,
            status="truncated",
            reward=0.75,
            policy_version_start=11,
            policy_version_end=12,
            replica="replica-0",
        )
    )
    assert span == replace(
        span,
        name="rl.trajectory",
        start_ns=1_000,
        end_ns=9_000,
        parent="",
        is_error=False,
        resource={"rl.run.id": "r"},
        attributes={
            "rl.trajectory.id": "t-1",
            "rl.loop.iteration": 4,
            "rl.phase": "validation",
            "rl.group.id": "g-1",
            "rl.trajectory.generate_seconds": 1.5,
            "rl.trajectory.tool_seconds": 0.5,
            "rl.trajectory.score_seconds": 0.25,
            "rl.trajectory.queue_seconds": 0.125,
            "rl.trajectory.paused_seconds": 2.0,
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 200,
            "rl.trajectory.turns": 3,
            "rl.trajectory.preemptions": -1,
            "rl.trajectory.status": "truncated",
            "rl.reward.value": 0.75,
            "rl.policy.version.start": 11,
            "rl.policy.version.end": 12,
            "service.instance.id": "replica-0",
        },
    )


def test_what_is_missing_is_absent_but_the_name() -> None:
    (span,) = send(make())
    assert span.attributes == {"rl.phase": "train", "rl.trajectory.id": span.trace_id}


def test_parts_are_children_with_their_turns() -> None:
    root, *children = send(
        make(
            (
                ("queue", "", 1_000, 2_000),
                ("generate", "", 2_000, 3_000),
                ("tool", "python", 3_000, 4_000),
                ("generate", "", 4_000, 5_000),
                ("score", "", 5_000, 6_000),
                ("queue", "", 6_000, 1_000_006_000),
            )
        )
    )
    assert [(child.name, child.attributes, child.start_ns, child.end_ns) for child in children] == [
        ("rl.generate", {"rl.turn": 1}, 2_000, 3_000),
        ("execute_tool python", {"rl.turn": 1, "gen_ai.tool.name": "python"}, 3_000, 4_000),
        ("rl.generate", {"rl.turn": 2}, 4_000, 5_000),
        ("rl.score", {"rl.turn": 2}, 5_000, 6_000),
    ]
    assert {child.parent for child in children} == {root.span_id}
    assert {child.trace_id for child in children} == {root.trace_id}
    assert len({child.span_id for child in children} | {root.span_id}) == 5
    assert root.attributes["rl.trajectory.queue_seconds"] == 1.000001


def test_each_trajectory_is_a_trace_of_its_own() -> None:
    spans = send(make(), make())
    assert len({span.trace_id for span in spans}) == 2


def test_error_is_a_failed_span() -> None:
    (span,) = send(make(status="error"))
    assert span.is_error


def test_numpy_numbers_are_numbers() -> None:
    (span,) = send(
        make(reward=np.float32(0.5), output_tokens=np.int64(7), start_ns=np.int64(3), iteration=2.0)
    )
    assert span.attributes["rl.reward.value"] == 0.5
    assert span.attributes["gen_ai.usage.output_tokens"] == 7
    assert (span.start_ns, span.attributes["rl.loop.iteration"]) == (3, 2)


def test_bad_records_and_parts_are_skipped_alone() -> None:
    class Unspeakable:
        def __str__(self) -> str:
            raise RuntimeError

    bad_parts: Any = (("generate", "", "soon", 2), ("dance", "", 1, 2), ("tool",), 5)
    encoded = encode(
        make(trajectory_id="good"),
        make(start_ns=None),
        make(end_ns=-5),
        make(group_id=Unspeakable()),
        ("too", "short"),
        make((("generate", "", 1, 2), *bad_parts), trajectory_id="parts"),
    )
    spans = list(decode_spans(encoded.body))
    assert [span.attributes.get("rl.trajectory.id") for span in spans] == ["good", "parts", None]
    assert (encoded.num_records, encoded.num_skipped) == (2, 4 + 4)


def test_number_of_parts_is_bounded() -> None:
    record = make((("generate", "", 1, 2),) * (MAX_PARTS + 10))
    encoded = encode(record)
    assert len(list(decode_spans(encoded.body))) == 1 + MAX_PARTS
    assert (encoded.num_records, encoded.num_skipped) == (1, 10)
    assert weigh_parts(record) == MAX_PARTS + 10
