"""Clocks that jump and nodes that disagree about the time."""

import itertools
from pathlib import Path

import pytest

from longpole_server.ingest.normalize import Normalizer
from longpole_server.model.records import Records
from support import otlp_builders as otlp
from support.otlp_pipeline import RecordingWriter, running_pipeline
from support.server_runs import RunScript
from support.server_service import opened_bench

HOUR_S = 3_600.0


def test_steps_are_derived_anew_after_the_servers_clock_was_set_back(tmp_path: Path):
    run = RunScript("run")
    with opened_bench(tmp_path) as bench:
        bench.clock.seconds = 2 * HOUR_S
        bench.write(run.start(), run.stages(1, 0.0))
        assert bench.service.list_steps("run")[0].closed_by is None
        bench.clock.seconds = 0.0
        restarted = bench.reopened()
        restarted.write(run.whole_step(1, 0.0))
        assert restarted.service.list_steps("run")[0].closed_by == "loop"


@pytest.mark.parametrize("skew_s", [-HOUR_S, 5.0, 300 * 24 * HOUR_S])
def test_a_node_whose_clock_is_wrong_changes_nobody_elses_steps(tmp_path: Path, skew_s: float):
    controller = otlp.process("run")
    worker = otlp.process("run", role="rollout", host="node1", pid=7, start_s=skew_s)
    node = otlp.resource({"host.name": "node1"})
    normalizer = Normalizer([])
    with opened_bench(tmp_path) as bench:
        for step in range(1, 4):
            start_s = 10.0 * step
            windows = [
                otlp.loop(step, start_s, start_s + 10),
                otlp.stage("gen", step, start_s, start_s + 6),
            ]
            sample = otlp.span(
                "rl.trajectory",
                start_s + skew_s,
                start_s + skew_s + 5,
                {"rl.loop.iteration": step, "rl.trajectory.id": f"t{step}"},
            )
            gpu = otlp.gauge("hw.gpu.utilization", [(start_s + skew_s, 0.5, {"hw.id": "GPU-0"})])
            records = Records()
            received_ns = otlp.at(start_s + 10)
            normalizer.normalize("traces", otlp.traces((worker, [sample])), received_ns, records)
            normalizer.normalize("traces", otlp.traces((controller, windows)), received_ns, records)
            normalizer.normalize("metrics", otlp.metrics((node, [gpu])), received_ns, records)
            bench.clock.seconds += 10.0
            bench.write(records)
        steps = bench.service.list_steps("run")
        assert [(step.step, step.closed_by) for step in steps] == [
            (1, "loop"),
            (2, "loop"),
            (3, "loop"),
        ]
        assert {step.duration_s for step in steps} == {10.0}
        detail = bench.service.get_run("run")
        assert [attempt.attempt for attempt in detail.attempts] == [1]
        for step in range(1, 4):
            found = bench.service.list_trajectories("run", step)
            assert [one.trajectory_id for one in found] == [f"t{step}"]


def test_a_clock_that_jumps_amid_requests_loses_none(tmp_path: Path):
    times = itertools.cycle([10**18, 5, 2 * 10**18, 0, 10**18])
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, clock_ns=lambda: next(times)) as pipeline:
        for number in range(60):
            pipeline.accept("logs", b"%d" % number, f"a/b/{number}")
        assert pipeline.drain(60.0)
    assert writer.bodies == [str(number) for number in range(60)]
