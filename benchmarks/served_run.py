"""A long run in a store of its own, served by the real server: for benchmarks of the whole path."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from longpole_server.diagnosis import diagnose_step, diagnosis_document
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.records import MetricPoint, Records, RunStart, StageSpan
from longpole_server.model.step import Step
from longpole_server.store import StoreConfig, open_store

_STEPS_AT_ONCE = 500
_START_DEADLINE_S = 60.0


def fill_store(data_dir: Path, run: RunFacts, steps: Sequence[StepFacts]) -> None:
    """Store a run as ingest and step closing would have: scalars, ledgers, verdicts."""
    document = json.dumps(diagnosis_document(diagnose_step(run, steps[-1])))
    store = open_store(StoreConfig(directory=data_dir / "store"))
    try:
        first = steps[0].step
        start = RunStart(
            run.run_id,
            1,
            first.start_ns,
            system=run.system,
            system_version=run.system_version,
            mode=run.mode,
            gpu_count=run.gpu_count,
            declared=True,
        )
        store.writer.write(Records(run_starts=[start]), "start")
        for index in range(0, len(steps), _STEPS_AT_ONCE):
            chunk = steps[index : index + _STEPS_AT_ONCE]
            points = [
                MetricPoint(run.run_id, 1, facts.step.step, name, value, _end_ns(facts.step))
                for facts in chunk
                for name, value in facts.scalars.items()
            ]
            spans = [span for facts in chunk for span in _list_spans(facts.step)]
            facts_of_chunk = Records(metric_points=points, stage_spans=spans)
            store.writer.write(facts_of_chunk, f"chunk-{index}")
            judged = [(facts.step, document) for facts in chunk]
            store.writer.write_steps(judged, time.time_ns())
    finally:
        store.close()


def _list_spans(step: Step) -> Iterator[StageSpan]:
    def make(stage: str, start_ns: int, end_ns: int, parent: str) -> StageSpan:
        return StageSpan(
            step.run_id,
            step.attempt,
            step.step,
            stage,
            stage,
            start_ns,
            end_ns,
            trace_id=f"trace-{step.step}",
            span_id=f"{step.step}.{stage}",
            parent_span_id=parent,
            role="controller",
            host="node-0",
            pid=1,
            is_loop=not parent,
        )

    yield make("step", step.start_ns, _end_ns(step), "")
    for stage in step.stages:
        for start_ns, end_ns in stage.windows:
            yield make(stage.stage, start_ns, end_ns, f"{step.step}.step")


def _end_ns(step: Step) -> int:
    return step.end_ns or step.start_ns


def move_to(facts: StepFacts, shift_ns: int) -> StepFacts:
    """Return a step that began `shift_ns` later."""
    step = facts.step
    stages = tuple(
        replace(
            stage,
            start_ns=None if stage.start_ns is None else stage.start_ns + shift_ns,
            end_ns=None if stage.end_ns is None else stage.end_ns + shift_ns,
            windows=tuple((begin + shift_ns, end + shift_ns) for begin, end in stage.windows),
        )
        for stage in step.stages
    )
    moved = replace(
        step,
        start_ns=step.start_ns + shift_ns,
        end_ns=None if step.end_ns is None else step.end_ns + shift_ns,
        stages=stages,
    )
    return replace(facts, step=moved)


@contextmanager
def serve(data_dir: Path) -> Generator[str]:
    """Run `longpole server` on a data directory and give its address."""
    ports = data_dir / "ports.json"
    ports.unlink(missing_ok=True)
    with (data_dir / "log").open("w") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "longpole.cli", "server", "--port", "0", "--no-otlp"),
                *("--data-dir", str(data_dir), "--ports-file", str(ports)),
            ],
            stdout=log,
            stderr=log,
            env=dict(os.environ),
        )
    try:
        deadline_s = time.monotonic() + _START_DEADLINE_S
        while not ports.exists():
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise SystemExit((data_dir / "log").read_text())
            time.sleep(0.05)
        yield f"http://127.0.0.1:{json.loads(ports.read_text())['http']}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def get(url: str) -> tuple[float, bytes]:
    """Return the seconds that a request took, and its answer."""
    begun_s = time.perf_counter()
    with urllib.request.urlopen(url) as answer:
        body = answer.read()
    return time.perf_counter() - begun_s, body
