from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from longpole_server.analysis.step_table import StepTable
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import MetricPoint, Records, StageSpan
from longpole_server.model.step import ClosedBy, Note, OutsideStage, StageTime, Step
from longpole_server.read.pool import ClientPool
from longpole_server.read.run_parts import Extent
from longpole_server.read.step_memory import StepMemory
from longpole_server.read.steps import list_steps
from support.store_opening import OpenedStore
from support.store_records import BASE_NS, SECOND_NS


def make_step(
    run_id: str, attempt: int, step: int, closed_by: ClosedBy | None = "loop", seconds: float = 30.0
) -> Step:
    start_ns = BASE_NS + step * 30 * SECOND_NS
    return Step(
        run_id=run_id,
        step=step,
        attempt=attempt,
        start_ns=start_ns,
        end_ns=start_ns + 30 * SECOND_NS if closed_by else None,
        duration_s=seconds if closed_by else None,
        closed_by=closed_by,
        stages=(
            StageTime(
                stage="gen",
                exclusive_s=19.5,
                inclusive_s=20.25,
                share_ratio=0.65,
                start_ns=start_ns,
                end_ns=start_ns + 20 * SECOND_NS,
                includes=("reward", "ref"),
                source="span",
                windows=((start_ns, start_ns + 1), (start_ns + 5, start_ns + 20 * SECOND_NS)),
            ),
            StageTime("adv", 0.5, 0.5, None, None, None, (), "scalar"),
        ),
        unattributed_s=10.0,
        outside=(OutsideStage("testing", 12.5, 1, None),),
        tokens_total=1 << 40,
        tokens_response=1 << 39,
        response_length_mean=812.5,
        response_length_max=4096.0,
        mfu_actor=0.41,
        verdict="rollout.long_tail",
        confidence="high",
        notes=(Note("stage.unknown", "warning", "ünknown 'x'", "timing_s/x", 1, 2),),
    )


def write(opened: OpenedStore, *steps: Step, version: int = 1) -> None:
    opened.writer.write_steps([(step, "") for step in steps], version)


def list_shown(opened: OpenedStore, run_id: str) -> list[tuple[int, int]]:
    return [(step.step, step.attempt) for step in opened.reader.list_steps(run_id)]


def test_a_step_comes_back_as_written(opened: OpenedStore) -> None:
    steps = [make_step("back", 1, 1), make_step("back", 1, 2, closed_by=None)]
    write(opened, *steps)
    assert opened.reader.list_steps("back") == steps


def test_a_later_version_replaces_whatever_order_they_arrive_in(opened: OpenedStore) -> None:
    write(opened, make_step("versions", 1, 1, seconds=2.0), version=2)
    write(opened, make_step("versions", 1, 1, seconds=1.0), version=1)
    (step,) = opened.reader.list_steps("versions")
    assert step.duration_s == 2.0


def test_going_back_to_earlier_content_is_not_taken_for_a_repetition(opened: OpenedStore) -> None:
    first, second = (make_step("back-and-forth", 1, 1, seconds=each) for each in (1.0, 2.0))
    for version, step in enumerate((first, second, first)):
        write(opened, step, version=version)
    assert opened.reader.list_steps("back-and-forth") == [first]


def test_a_resumed_run_shows_no_step_twice(opened: OpenedStore) -> None:
    write(opened, *(make_step("resumed", 1, step) for step in range(1, 8)))
    write(opened, make_step("resumed", 2, 5, closed_by=None))
    one, two = 1, 2
    assert list_shown(opened, "resumed") == [
        *((step, one) for step in (1, 2, 3, 4)),
        (5, two),
        (6, one),
        (7, one),
    ]
    write(opened, *(make_step("resumed", 2, step) for step in (5, 6, 7, 8)), version=2)
    assert list_shown(opened, "resumed") == [
        *((step, one) for step in (1, 2, 3, 4)),
        *((step, two) for step in (5, 6, 7, 8)),
    ]
    assert opened.reader.list_step_numbers("resumed")[3:5] == [(4, 1, True), (5, 2, True)]


def test_verdicts_are_those_of_the_latest_attempt(opened: OpenedStore) -> None:
    first = [replace(make_step("judged", 1, step), verdict="balanced") for step in (1, 2)]
    again = [replace(make_step("judged", 2, step), verdict="rollout.tool") for step in (2, 3)]
    opened_step = replace(make_step("judged", 2, 4, closed_by=None), verdict=None)
    write(opened, *first, *again, opened_step)
    assert opened.reader.list_step_verdicts("judged") == [
        (1, "balanced"),
        (2, "rollout.tool"),
        (3, "rollout.tool"),
        (4, None),
    ]


def test_a_range_is_inclusive(opened: OpenedStore) -> None:
    write(opened, *(make_step("range", 1, step) for step in range(-1, 6)))
    reader = opened.reader
    assert [step.step for step in reader.list_steps("range", 2, 4)] == [2, 3, 4]
    assert [step.step for step in reader.list_steps("range", first=4)] == [4, 5]
    assert [step.step for step in reader.list_steps("range", last=0)] == [-1, 0]


def test_the_last_steps_are_closed_ones_of_the_latest_attempt(opened: OpenedStore) -> None:
    write(opened, *(make_step("last", 1, step) for step in range(1, 6)))
    write(opened, make_step("last", 2, 4), make_step("last", 2, 5, closed_by=None))
    steps = opened.reader.list_last_steps("last", 3)
    assert [(step.step, step.attempt) for step in steps] == [(2, 1), (3, 1), (4, 2)]
    assert opened.reader.list_last_steps("last", 0) == []


def test_the_parts_of_many_runs_are_those_of_each(opened: OpenedStore) -> None:
    write(opened, *(make_step("parts/resumed", 1, step) for step in (1, 2, 3)))
    write(
        opened, make_step("parts/resumed", 2, 3), make_step("parts/resumed", 2, 5, closed_by=None)
    )
    validated = make_step("parts/validated", 1, 0, closed_by=None)
    write(opened, validated, *(make_step("parts/validated", 1, step) for step in (1, 2)))
    write(opened, make_step("parts/validated", 1, 3, closed_by=None))
    write(opened, make_step("parts/begun", 1, 0, closed_by=None))
    point = MetricPoint("parts/validated", 1, 2, "actor/entropy", 0.5, 1)
    opened.writer.write(Records(metric_points=[point, replace(point, step=1, value=0.25)]), "parts")
    gpu = RunGpu("parts/resumed", 1, "node", "GPU-a", 0, "actor", 1, None, "gpu_ids")
    opened.writer.write_run_gpus([gpu])
    run_ids = ["parts/resumed", "parts/validated", "parts/begun", "parts/unknown"]
    found = opened.reader.list_run_parts(run_ids, 2, 3)
    assert list(found) == run_ids
    # Of paces there are more than of steps: they are read from two columns.
    ended = {run_id: [pace.end_ns for pace in parts.paces] for run_id, parts in found.items()}
    assert ended == {
        "parts/resumed": [make_step("parts/resumed", at, step).end_ns
                          for at, step in ((1, 1), (1, 2), (2, 3))],
        "parts/validated": [make_step("parts/validated", 1, step).end_ns for step in (1, 2)],
        "parts/begun": [], "parts/unknown": [],
    }  # fmt: skip
    paces = opened.reader.list_run_parts(run_ids, 1, 2)["parts/resumed"].paces
    assert paces == found["parts/resumed"].paces[1:]
    assert {run_id: [(step.step, step.attempt) for step in parts.steps]
            for run_id, parts in found.items()} == {
        "parts/resumed": [(2, 1), (3, 2)], "parts/validated": [(1, 1), (2, 1)],
        "parts/begun": [], "parts/unknown": [],
    }  # fmt: skip
    # Validation before training is no step, and a step done again is the later attempt's.
    assert {run_id: parts.extents for run_id, parts in found.items()} == {
        "parts/resumed": {1: Extent(1, 2, 2), 2: Extent(3, 5, 2)},
        "parts/validated": {1: Extent(1, 3, 3)}, "parts/begun": {1: Extent(0, 0, 1)},
        "parts/unknown": {},
    }  # fmt: skip
    assert [parts.scalars for parts in found.values()] == [{}, {"actor/entropy": 0.5}, {}, {}]
    assert [[gpu.gpu_uuid for gpu in parts.gpus] for parts in found.values()] == [
        ["GPU-a"], [], [], []
    ]  # fmt: skip


def test_the_stored_diagnosis_of_a_step(opened: OpenedStore) -> None:
    opened.writer.write_steps([(make_step("diagnosed", 1, 1), '{"verdict": "ü"}')], 1)
    assert opened.reader.get_step_diagnosis("diagnosed", 1, 1) == '{"verdict": "ü"}'
    assert opened.reader.get_step_diagnosis("diagnosed", 1, 2) == ""


def test_windows_of_a_step_are_listed_once_by_start(opened: OpenedStore) -> None:
    spans = [
        StageSpan("spans", 1, 3, stage, name, BASE_NS + start, BASE_NS + 9, "t", f"s{start}")
        for start, (stage, name) in enumerate([("step", "rl.loop"), ("gen", "rl.sample")])
    ]
    other = StageSpan("spans", 1, 4, "gen", "rl.sample", BASE_NS, BASE_NS + 9, "t", "s9")
    opened.writer.write(Records(stage_spans=[*reversed(spans), other]), "spans-1")
    opened.writer.write(Records(stage_spans=spans), "spans-2")
    assert opened.reader.list_stage_spans("spans", 1, 3) == spans
    assert opened.reader.list_stage_spans("spans", 2, 3) == []


def test_recorded_steps_are_those_with_a_window_or_a_scalar(opened: OpenedStore) -> None:
    records = Records(
        stage_spans=[
            StageSpan(
                "recorded", attempt, step, "gen", "gen", BASE_NS, BASE_NS + 1, "t", f"s{step}"
            )
            for attempt, step in ((1, 4), (1, 2), (1, -1), (2, 9))
        ],
        metric_points=[
            MetricPoint("recorded", 1, step, "timing_s/gen", 1.0, BASE_NS) for step in (2, 7)
        ],
    )
    opened.writer.write(records, "recorded steps")
    assert opened.reader.list_recorded_steps("recorded", 1) == [2, 4, 7]
    assert opened.reader.list_recorded_steps("recorded", 2) == [9]
    assert opened.reader.list_recorded_steps("nobody", 1) == []


def test_steps_as_columns_are_the_steps(opened: OpenedStore) -> None:
    run_id = "columns"
    plain = make_step(run_id, 1, 3)
    steps = [
        make_step(run_id, 1, 1),
        make_step(run_id, 1, 2, closed_by=None),
        replace(plain, stages=plain.stages[:1], notes=(), outside=(), verdict=None),
        make_step(run_id, 2, 2),
    ]
    write(opened, *steps[:2], version=5)
    write(opened, *steps[2:], version=7)
    found = opened.reader.list_step_columns(run_id)
    expected = sorted(steps, key=lambda step: (step.attempt, step.step))
    assert [*StepTable(found.columns)] == [_without_windows(step) for step in expected]
    assert found.versions.tolist() == [5, 5, 7, 7]
    newer = opened.reader.list_step_columns(run_id, after=5)
    assert list(zip(newer.columns.attempts, newer.columns.steps, strict=True)) == [(1, 3), (2, 2)]
    state = opened.reader.get_steps_state(run_id)
    assert (state.count, state.checksum, state.newest) == (4, 24, 7)
    assert opened.reader.get_steps_state("nobody").count == 0
    assert len(opened.reader.list_step_columns("nobody").versions) == 0


def test_some_steps_by_attempt_and_number(opened: OpenedStore) -> None:
    write(opened, *(make_step("at", attempt, step) for attempt in (1, 2) for step in (1, 2, 3)))
    found = opened.reader.list_steps_at("at", [(2, 3), (1, 1), (9, 9)])
    assert found == [make_step("at", 1, 1), make_step("at", 2, 3)]
    assert opened.reader.list_steps_at("at", []) == []


def _without_windows(step: Step) -> Step:
    """What columns keep of a step."""
    total_s = step.duration_s
    bare = tuple(
        replace(
            stage,
            share_ratio=stage.exclusive_s / total_s if total_s else None,
            start_ns=None,
            end_ns=None,
            includes=(),
            windows=(),
        )
        for stage in step.stages
    )
    outside = tuple(replace(part, start_ns=None) for part in step.outside)
    return replace(step, stages=bare, outside=outside)


def test_windows_of_many_steps(opened: OpenedStore) -> None:
    run_id = "windows-of-many"
    spans = [
        StageSpan(run_id, 1, step, "gen", "gen", BASE_NS, BASE_NS + 9, "t", f"s{step}")
        for step in (1, 2, 3)
    ]
    opened.writer.write(Records(stage_spans=spans), "windows-of-many")
    found = opened.reader.list_stage_spans_of(run_id, [(1, 3), (1, 1), (2, 1)])
    assert found == {(1, 3): [spans[2]], (1, 1): [spans[0]], (2, 1): []}
    assert not opened.reader.has_samples(run_id, 1)
    assert not opened.reader.has_engines(run_id, 1)


class Interrupted(ClientPool):
    """Connections between whose first and second query a step is written anew."""

    def __init__(self, opened: OpenedStore, step: Step) -> None:
        super().__init__(opened.store.new_reader_client, 1)
        self._opened, self._step, self._num_queries = opened, step, 0

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        self._num_queries += 1
        if self._num_queries == 2:
            write(self._opened, self._step, version=2)
        return super().query(sql, parameters)


def test_a_step_that_is_derived_anew_meanwhile_is_not_left_out(opened: OpenedStore) -> None:
    steps = [make_step("interrupted", 1, number) for number in (1, 2, 3)]
    write(opened, *steps)
    steps[1] = make_step("interrupted", 1, 2, seconds=31.0)
    memory = StepMemory()
    with closing(Interrupted(opened, steps[1])) as pool:
        assert list_steps(pool, memory, "interrupted", None, None) == steps
        # It is not taken for the edition before it.
        assert list_steps(pool, memory, "interrupted", None, None) == steps
