"""Histories of pretend runs for tests of alert rules: a figure a step, ten seconds a step."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from longpole_server.alerts.history import (
    GpuGroup,
    GpuMinute,
    History,
    HostSeen,
    Moment,
    OwnState,
    ReplicaSamples,
    RunContext,
    SampleCounts,
    StepPoint,
)
from longpole_server.alerts.rule import Judgement, Rule
from longpole_server.model.alert import AlertEvent
from longpole_server.model.diagnosis import Entity
from longpole_server.model.facts import RunFacts
from longpole_server.model.step import OutsideStage, StageTime, Step

S = 1_000_000_000
BEGIN_NS = 1_700_000_000 * S
STEP_S = 10
RUN_ID = "team/run"
RUN = Entity("run", RUN_ID)


def at(seconds: float) -> int:
    return BEGIN_NS + round(seconds * S)


def make_step(number: int, **fields: Any) -> Step:
    known: dict[str, Any] = {
        "run_id": RUN_ID,
        "step": number,
        "attempt": 1,
        "start_ns": at((number - 1) * STEP_S),
        "end_ns": at(number * STEP_S),
        "duration_s": float(STEP_S),
        "closed_by": "loop",
        "stages": (),
        "unattributed_s": None,
        "outside": (),
    }
    return Step(**{**known, **fields})


def make_stage(name: str, seconds: float) -> StageTime:
    return StageTime(name, seconds, seconds, seconds / STEP_S, None, None, (), "span")


def make_point(number: int, scalars: Mapping[str, float] | None = None, **fields: Any) -> StepPoint:
    samples = fields.pop("samples", None)
    return StepPoint(make_step(number, **fields), scalars or {}, samples)


def with_validation(point: StepPoint) -> StepPoint:
    return replace(point, step=replace(point.step, outside=(OutsideStage("testing", 30.0),)))


def points_of(name: str, values: Sequence[float | None]) -> list[StepPoint]:
    """One scalar over steps 1, 2, ...; None where it is not reported."""
    return [
        make_point(number, {} if value is None else {name: value})
        for number, value in enumerate(values, 1)
    ]


def make_run(**fields: Any) -> RunContext:
    known: dict[str, Any] = {
        "facts": RunFacts(RUN_ID, "run", **fields.pop("facts", {})),
        "project": "team",
        "attempt": 1,
        "state": "live",
        "started_ns": BEGIN_NS,
        "last_seen_ns": BEGIN_NS,
        "first_step": 1,
        "last_progress_ns": BEGIN_NS,
        "patience_s": 120.0,
    }
    return RunContext(**{**known, **fields})


def history_of(points: Sequence[StepPoint], run: RunContext | None = None) -> History:
    """The history at the close of the last point."""
    step = points[-1].step if points else None
    ts_ns = step.end_ns if step is not None and step.end_ns is not None else BEGIN_NS
    moment = Moment(ts_ns, ts_ns, step.step if step is not None else None)
    return History(moment, run or make_run(), points, opening=points[:40], entity=RUN)


def history_at(seconds: float, run: RunContext | None = None, **fields: Any) -> History:
    """A moment between steps."""
    fields["gpus"] = GpuGroup(fields.get("gpus", ()))
    return History(Moment(at(seconds), at(seconds)), run or make_run(), entity=RUN, **fields)


def make_gpu(index: int, newest_s: float = 100.0, **fields: Any) -> GpuMinute:
    known: dict[str, Any] = {
        "host": "node-0",
        "gpu_uuid": f"GPU-{index}",
        "gpu_index": index,
        "role": "rollout",
        "newest_ns": at(newest_s),
        "num_samples": 60,
        "utilization_ratio": 0.9,
    }
    return GpuMinute(**{**known, **fields})


def make_host(newest_s: float, host: str = "node-0") -> HostSeen:
    return HostSeen(host, at(newest_s))


def make_own(**fields: Any) -> OwnState:
    known: dict[str, Any] = {
        "up_s": 600.0,
        "num_pending": 0,
        "num_dropped": 0,
        "dropped_window_s": 300.0,
    }
    return OwnState(**{**known, **fields})


def make_counts(replicas: Sequence[str] = (), **fields: Any) -> SampleCounts:
    known: dict[str, Any] = {
        "num_samples": 100,
        "num_scored": 100,
        "num_zero_rewards": 0,
        "num_dropped_stale": 0,
        "num_preempted": 0,
        "num_reporting_preemptions": 0,
        "score_max_s": None,
        "score_median_s": None,
        "num_zero_at_max": 0,
        "version_max": None,
        "replicas": tuple(ReplicaSamples(name, 50, 0) for name in replicas),
    }
    return SampleCounts(**{**known, **fields})


class ScriptedDetector:
    """Says what a test wants: above 1 it fires, at 0 or below it is over; None is not judged."""

    fire: float | None = 1.0
    clear: float | None = 0.0
    unit = "1"
    reads = ("script",)

    def judge(self, history: History) -> Judgement:
        newest = history.newest
        return judgement_of(None if newest is None else newest.scalars.get("script"))


def judgement_of(value: float | None) -> Judgement:
    if value is None:
        return Judgement(False, False, None, None, "1", quiet_because="not judgeable: no value")
    firing = value > 1
    quiet = None if firing else "low"
    return Judgement(firing, value <= 0, value, 1.0, "1", quiet_because=quiet)


def make_rule(**fields: Any) -> Rule:
    known: dict[str, Any] = {
        "rule_id": "test.rule",
        "title": "Test",
        "kind": "fault",
        "severity": "warning",
        "detector": ScriptedDetector(),
        "condition": "as the test says",
        "summary": "value {value} over {threshold} on {entity}",
        "cause": "the test",
        "first_look": "the test",
        "cooldown_s": 0.0,
    }
    return Rule(**{**known, **fields})


def kinds(events: Sequence[AlertEvent]) -> list[str]:
    return [event.kind for event in events]
