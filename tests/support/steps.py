"""Builders of spans, scalars, samples and step facts for tests of analysis and diagnosis."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import (
    GpuWindow,
    RunFacts,
    StepFacts,
    StepInputs,
    TrajectoryFacts,
)
from longpole_server.model.records import StageSpan

NS = 1_000_000_000
DATA = Path(__file__).parents[1] / "data"


def span(
    stage: str,
    start_s: float,
    end_s: float,
    *,
    span_id: str = "",
    parent: str = "",
    pid: int = 1,
    role: str = "controller",
    step: int = 1,
    is_loop: bool = False,
    sync_phase: str | None = None,
    tokens_total: int | None = None,
) -> StageSpan:
    """Return a stage span with times in seconds."""
    return StageSpan(
        "run",
        1,
        step,
        stage,
        f"rl.{stage}",
        round(start_s * NS),
        round(end_s * NS),
        trace_id="trace",
        span_id=span_id,
        parent_span_id=parent,
        role=role,
        host="node",
        pid=pid,
        is_loop=is_loop,
        sync_phase=sync_phase,
        tokens_total=tokens_total,
    )


def loop(start_s: float, end_s: float, *, pid: int = 1, tokens_total: int | None = None):
    """Return the span of a whole step."""
    return span(
        "step", start_s, end_s, span_id="loop", pid=pid, is_loop=True, tokens_total=tokens_total
    )


def inputs(
    spans: Sequence[StageSpan] = (),
    scalars: Mapping[str, float] | None = None,
    *,
    run: RunFacts | None = None,
    step: int = 1,
    scalars_ns: int | None = 1000 * NS,
    successor_start_s: float | None = None,
    sequence_lengths: Sequence[int] = (),
    response_lengths: Sequence[int] = (),
) -> StepInputs:
    """Return everything known about one step."""
    return StepInputs(
        run or RunFacts("run", "run", system="verl"),
        1,
        step,
        spans,
        scalars or {},
        scalars_ns=scalars_ns if scalars else None,
        successor_start_ns=None if successor_start_s is None else round(successor_start_s * NS),
        sequence_lengths=sequence_lengths,
        response_lengths=response_lengths,
    )


def timers(seconds: Mapping[str, float], step_s: float | None = None) -> dict[str, float]:
    """Return verl's timers; the step is their sum when not given."""
    scalars = {f"timing_s/{name}": value for name, value in seconds.items()}
    scalars["timing_s/step"] = sum(seconds.values()) if step_s is None else step_s
    return scalars


def facts(
    seconds: Mapping[str, float],
    scalars: Mapping[str, float] | None = None,
    *,
    run: RunFacts | None = None,
    step: int = 1,
    step_s: float | None = None,
    trajectories: TrajectoryFacts | None = None,
    gpu_windows: Sequence[GpuWindow] = (),
) -> StepFacts:
    """Return the facts of a step that is known by scalars."""
    logged = timers(seconds, step_s) | dict(scalars or {})
    assembled = assemble_step(inputs((), logged, run=run, step=step, scalars_ns=step * 1000 * NS))
    return StepFacts(assembled, logged, trajectories, gpu_windows)


def samples(
    durations_s: Sequence[float],
    tokens: Sequence[int | None] | None = None,
    *,
    tool_s: Sequence[float | None] | None = None,
    score_s: Sequence[float | None] | None = None,
    statuses: Sequence[str | None] | None = None,
    preemptions: Sequence[int | None] | None = None,
    replicas: Sequence[str | None] | None = None,
    start_s: float = 0.0,
) -> TrajectoryFacts:
    """Return samples that all start together."""
    count = len(durations_s)
    nothing: list[None] = [None] * count
    return TrajectoryFacts(
        start_ns=[round(start_s * NS)] * count,
        end_ns=[round((start_s + duration) * NS) for duration in durations_s],
        durations_s=list(durations_s),
        generate_s=nothing,
        tool_s=tool_s or nothing,
        score_s=score_s or nothing,
        queue_s=nothing,
        output_tokens=tokens or nothing,
        preemptions=preemptions or nothing,
        statuses=statuses or nothing,
        replicas=replicas or nothing,
    )


def read_log(name: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Read (step, scalars) of a sample log: just enough for these tests."""
    for line in (DATA / name).read_text().splitlines():
        if name.endswith(".jsonl"):
            record = json.loads(line)
            values = record["data"].items()
            yield record["step"], {k: float(v) for k, v in values if isinstance(v, int | float)}
        elif match := re.search(r"step:(\d+) - (.*)", line):
            pairs = (part.rpartition(":") for part in match.group(2).split(" - "))
            yield int(match.group(1)), {key: float(_plain(value)) for key, _, value in pairs}


def _plain(value: str) -> str:
    return re.sub(r"np\.\w+\(|\)|\x1b.*", "", value)


def read_facts(name: str) -> tuple[RunFacts, list[StepFacts]]:
    """Return a sample log as facts."""
    run = RunFacts(name, name, system="verl")
    return run, [
        StepFacts(
            assemble_step(inputs((), scalars, run=run, step=step, scalars_ns=step * 1000 * NS)),
            scalars,
        )
        for step, scalars in read_log(name)
    ]
