from collections.abc import Sequence
from dataclasses import replace

import pytest

from longpole_server.model.records import (
    UNKNOWN_STEP,
    Records,
    TrajectoryRecord,
    TrajectorySpan,
)
from longpole_server.model.trajectory import Trajectory, TrajectoryPart
from support.sample_facts import make_trajectory_facts
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS


def make_sample(
    number: int,
    step: int = 5,
    *,
    attempt: int = 1,
    seconds: int = 1,
    output_tokens: int | None = None,
    phase: str = "train",
) -> TrajectoryRecord:
    return TrajectoryRecord(
        run_id="samples",
        attempt=attempt,
        step=step,
        trajectory_id=f"t{number}",
        start_ns=BASE_NS + number,
        end_ns=BASE_NS + number + seconds * SECOND_NS,
        phase=phase,
        group_id=f"g{number % 2}",
        output_tokens=output_tokens,
        span_id=f"s{number}",
    )


@pytest.fixture(scope="module", autouse=True)
def written(opened: OpenedStore) -> None:
    samples = [
        make_sample(0, seconds=3, output_tokens=10),
        make_sample(1, seconds=1, output_tokens=None),
        make_sample(2, seconds=2, output_tokens=30),
        make_sample(3, seconds=4, phase="validation"),
        make_sample(4, UNKNOWN_STEP, seconds=5),
        make_sample(5, UNKNOWN_STEP, seconds=50),
        make_sample(0, attempt=2, seconds=9),
        make_sample(6, step=6),
        replace(
            make_sample(7, attempt=2),
            generate_s=0.5,
            tool_s=0.25,
            score_s=0.1,
            queue_s=0.0,
            paused_s=1.0,
            input_tokens=7,
            turns=2,
            preemptions=0,
            policy_version_start=4,
            policy_version_end=5,
            status="success",
            reward=-1.5,
            replica="r0",
        ),
    ]
    parts = [
        TrajectorySpan(
            "samples", attempt, "t0", kind, "search", BASE_NS + start, BASE_NS + start + 1, "", turn
        )
        for attempt, start, kind, turn in (
            (1, 5, "tool", 1),
            (2, 7, "tool", 1),
            (2, 3, "generate", None),
        )
    ]
    for token in ("samples-1", "samples-2"):
        opened.writer.write(Records(trajectories=samples, trajectory_spans=parts), token)


def list_ids(
    opened: OpenedStore,
    window_ns: tuple[int, int] | None = None,
    phase: str | None = None,
    order: str = "-duration",
    limit: int = 100,
) -> list[str]:
    samples = opened.reader.list_trajectories(
        "samples", 1, 5, window_ns, phase=phase, order=order, limit=limit
    )
    return [sample.trajectory_id for sample in samples]


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("-duration", ["t3", "t0", "t2", "t1"]),
        ("duration", ["t1", "t2", "t0", "t3"]),
        ("-output_tokens", ["t2", "t0", "t1", "t3"]),
        ("output_tokens", ["t0", "t2", "t1", "t3"]),
        ("start", ["t0", "t1", "t2", "t3"]),
    ],
)
def test_orders_put_the_unknown_last(opened: OpenedStore, order: str, ids: list[str]) -> None:
    assert list_ids(opened, order=order) == ids


def test_a_limit_and_a_phase(opened: OpenedStore) -> None:
    assert list_ids(opened, limit=2) == ["t3", "t0"]
    assert list_ids(opened, phase="train", limit=2) == ["t0", "t2"]
    assert list_ids(opened, phase="validation") == ["t3"]


def test_pages_of_samples_follow_each_other(opened: OpenedStore) -> None:
    pages = [
        opened.reader.list_trajectories("samples", 1, 5, None, limit=3, offset=offset)
        for offset in (0, 3, 6)
    ]
    assert [[sample.trajectory_id for sample in page] for page in pages] == [
        ["t3", "t0", "t2"],
        ["t1"],
        [],
    ]


def test_samples_of_unknown_step_count_where_they_end(opened: OpenedStore) -> None:
    window_ns = (BASE_NS, BASE_NS + 5 * SECOND_NS + 4)
    assert list_ids(opened, window_ns) == ["t4", "t3", "t0", "t2", "t1"]
    (sample, *_) = opened.reader.list_trajectories("samples", 1, 5, window_ns)
    assert sample.step == 5
    assert sample.duration_s == 5.0
    # A window holds its end, not its start.
    assert "t4" not in list_ids(opened, (BASE_NS, window_ns[1] - 1))
    assert "t4" not in list_ids(opened, (window_ns[1], window_ns[1] + 1))


def test_one_sample_is_that_of_the_latest_attempt(opened: OpenedStore) -> None:
    sample = opened.reader.find_trajectory("samples", "t0")
    assert sample is not None
    assert (sample.attempt, sample.duration_s, sample.output_tokens) == (2, 9.0, None)
    assert opened.reader.find_trajectory("samples", "missing") is None
    assert opened.reader.find_trajectory("other", "t0") is None


def test_parts_are_those_of_the_latest_attempt_in_order(opened: OpenedStore) -> None:
    assert opened.reader.list_trajectory_parts("samples", "t0") == [
        TrajectoryPart("generate", "search", BASE_NS + 3, BASE_NS + 4, None, None, None),
        TrajectoryPart("tool", "search", BASE_NS + 7, BASE_NS + 8, 1, None, None),
    ]
    assert opened.reader.list_trajectory_parts("samples", "t1") == []


def test_a_group_is_of_one_step(opened: OpenedStore) -> None:
    samples = opened.reader.list_group("samples", 1, 5, "g0")
    assert [sample.trajectory_id for sample in samples] == ["t0", "t2"]


def test_the_parts_of_several_samples_of_one_attempt(opened: OpenedStore) -> None:
    found = opened.reader.list_parts_of("samples", 2, ["t0", "t1"])
    assert found["t0"] == opened.reader.list_trajectory_parts("samples", "t0")
    assert found["t1"] == []
    first = opened.reader.list_parts_of("samples", 1, ["t0"])["t0"]
    assert [(part.kind, part.start_ns - BASE_NS) for part in first] == [("tool", 5)]


@pytest.mark.parametrize("attempt", [1, 2, 3])
@pytest.mark.parametrize("window_ns", [None, (BASE_NS, BASE_NS + 10 * SECOND_NS)])
def test_columns_say_what_the_samples_say(
    opened: OpenedStore, attempt: int, window_ns: tuple[int, int] | None
) -> None:
    def list_samples(phase: str) -> Sequence[Trajectory]:
        return opened.reader.list_trajectories(
            "samples", attempt, 5, window_ns, phase=phase, order="start", limit=3
        )

    samples = list_samples("train")
    columns = opened.reader.read_samples("samples", attempt, 5, window_ns, 3)
    assert columns.facts == make_trajectory_facts(samples)
    tools = {"t0": "search", "t7": "python"}
    assert columns.with_tools(tools) == make_trajectory_facts(samples, tools)
    assert columns.uses_tools == any(sample.tool_s for sample in samples)
    assert list(columns.trajectory_ids) == [sample.trajectory_id for sample in samples]
