import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_server.ingest.normalize.trajectories import measure_union_s
from longpole_server.model.records import UNKNOWN_STEP, TrajectoryRecord, TrajectorySpan
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

TRACE, ROOT, CHILD = b"t" * 16, b"r" * 8, b"c" * 8


def test_a_sample_with_everything() -> None:
    span = otlp.span(
        "rl.trajectory",
        10,
        20,
        {
            "rl.loop.iteration": 3,
            "rl.phase": "validation",
            "rl.trajectory.id": "s-1",
            "rl.group.id": "g-1",
            "rl.trajectory.turns": 2,
            "rl.trajectory.preemptions": 1,
            "rl.trajectory.paused_seconds": 0.5,
            "rl.trajectory.generate_seconds": 6,
            "rl.trajectory.tool_seconds": 2.5,
            "rl.trajectory.score_seconds": 1.0,
            "rl.trajectory.queue_seconds": 0.25,
            "rl.trajectory.status": "truncated",
            "rl.policy.version.start": 4,
            "rl.policy.version.end": 5,
            "rl.reward.value": -0.5,
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 2000,
            "service.instance.id": "replica-1",
        },
        trace=TRACE,
        id=ROOT,
    )

    records = Feed().traces(otlp.process(), [span], at_s=20)

    assert records.trajectories == [
        TrajectoryRecord(
            run_id="run",
            attempt=1,
            step=3,
            trajectory_id="s-1",
            start_ns=otlp.at(10),
            end_ns=otlp.at(20),
            phase="validation",
            group_id="g-1",
            generate_s=6.0,
            tool_s=2.5,
            score_s=1.0,
            queue_s=0.25,
            paused_s=0.5,
            input_tokens=100,
            output_tokens=2000,
            turns=2,
            preemptions=1,
            status="truncated",
            reward=-0.5,
            policy_version_start=4,
            policy_version_end=5,
            replica="replica-1",
            host="node0",
            trace_id=TRACE.hex(),
            span_id=ROOT.hex(),
        )
    ]


def test_a_sample_with_nothing() -> None:
    span = otlp.span("rl.trajectory", 10, 20, trace=TRACE, id=ROOT)

    (sample,) = Feed().traces(otlp.process(), [span], at_s=20).trajectories

    assert sample == TrajectoryRecord(
        run_id="run",
        attempt=1,
        step=UNKNOWN_STEP,
        trajectory_id=ROOT.hex(),
        start_ns=otlp.at(10),
        end_ns=otlp.at(20),
        host="node0",
        trace_id=TRACE.hex(),
        span_id=ROOT.hex(),
    )


def test_children_tell_where_the_time_went() -> None:
    spans = [
        otlp.span(
            "rl.generate",
            10,
            14,
            {"rl.turn": 1, "gen_ai.usage.output_tokens": 50},
            trace=TRACE,
            id=CHILD,
            parent=ROOT,
        ),
        otlp.span("execute_tool python", 14, 17, {"gen_ai.tool.name": "python"}, trace=TRACE),
        otlp.span("execute_tool search", 15, 18, trace=TRACE, parent=CHILD),
        otlp.span("rl.score", 18, 19, trace=TRACE, parent=ROOT),
        otlp.span("rl.trajectory", 10, 20, {"rl.trajectory.id": "s"}, trace=TRACE, id=ROOT),
    ]

    records = Feed().traces(otlp.process(), spans, at_s=20)

    (sample,) = records.trajectories
    # The two tools ran side by side for two seconds.
    assert (sample.generate_s, sample.tool_s, sample.score_s) == (4.0, 4.0, 1.0)
    assert sample.queue_s is None
    assert [(part.kind, part.name) for part in records.trajectory_spans] == [
        ("generate", "rl.generate"),
        ("tool", "python"),
        ("tool", "execute_tool search"),
        ("score", "rl.score"),
    ]
    assert records.trajectory_spans[0] == TrajectorySpan(
        run_id="run",
        attempt=1,
        trajectory_id="s",
        kind="generate",
        name="rl.generate",
        start_ns=otlp.at(10),
        end_ns=otlp.at(14),
        span_id=CHILD.hex(),
        turn=1,
        output_tokens=50,
    )


def test_the_sum_that_was_sent_wins_over_children() -> None:
    spans = [
        otlp.span("rl.generate", 10, 14, trace=TRACE, parent=ROOT),
        otlp.span(
            "rl.trajectory", 10, 20, {"rl.trajectory.generate_seconds": 9.0}, trace=TRACE, id=ROOT
        ),
    ]

    (sample,) = Feed().traces(otlp.process(), spans, at_s=20).trajectories

    assert sample.generate_s == 9.0


def test_samples_that_share_a_trace_keep_their_own_children() -> None:
    other, middle = b"o" * 8, b"m" * 8
    spans = [
        otlp.span("rl.trajectory", 0, 9, {"rl.trajectory.id": "a"}, trace=TRACE, id=ROOT),
        otlp.span("rl.trajectory", 0, 9, {"rl.trajectory.id": "b"}, trace=TRACE, id=other),
        otlp.span("turn", 1, 5, trace=TRACE, id=middle, parent=other),
        otlp.span("rl.generate", 1, 3, trace=TRACE, parent=ROOT),
        otlp.span("rl.generate", 1, 5, trace=TRACE, parent=middle),
        otlp.span("rl.generate", 1, 7, trace=TRACE, parent=b"?" * 8),
    ]

    records = Feed().traces(otlp.process(), spans, at_s=9)

    assert {s.trajectory_id: s.generate_s for s in records.trajectories} == {"a": 2.0, "b": 4.0}
    assert [part.trajectory_id for part in records.trajectory_spans] == ["a", "b"]


def test_a_child_in_another_request_is_joined_by_the_id_it_carries() -> None:
    spans = [
        otlp.span("rl.generate", 1, 3, {"rl.trajectory.id": "a"}, parent=ROOT),
        otlp.span("rl.generate", 1, 3, parent=ROOT),
    ]

    records = Feed().traces(otlp.process(), spans, at_s=3)

    assert [part.trajectory_id for part in records.trajectory_spans] == ["a"]


@pytest.mark.parametrize("sent", [-1, "-1", -7])
def test_a_negative_preemption_count_means_unknown(sent: object) -> None:
    span = otlp.span("rl.trajectory", 1, 2, {"rl.trajectory.preemptions": sent})

    (sample,) = Feed().traces(otlp.process(), [span], at_s=2).trajectories

    assert sample.preemptions is None


def test_a_rollout_process_is_its_own_replica() -> None:
    spans = [otlp.span("rl.trajectory", 1, 2)]
    rollout = otlp.process(role="rollout", service__instance__id="replica-7")
    controller = otlp.process(role="controller", service__instance__id="main")

    feed = Feed()
    assert feed.traces(rollout, spans, at_s=2).trajectories[0].replica == "replica-7"
    assert feed.traces(controller, spans, at_s=2).trajectories[0].replica is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=12))
def test_the_union_counts_each_moment_once(windows: list[tuple[int, int]]) -> None:
    covered = {moment for start, end in windows for moment in range(start, end)}

    assert measure_union_s(windows) == pytest.approx(len(covered) / 1e9)
