import math
from dataclasses import replace

import pytest

from longpole_server.errors import BadRequestError, NotFoundError
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.run import RunSummary
from support.server_runs import PLAIN_STAGES, RunScript, gpu_samples, merge
from support.server_service import ServiceBench


def find(bench: ServiceBench, run_id: str) -> RunSummary:
    return next(run for run in bench.service.list_runs() if run.run_id == run_id)


def test_figures_of_a_run_are_medians_of_its_last_steps(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=2, name="Seven", mode="sync"))
    for step, (start_s, length_s) in enumerate([(0.0, 10.0), (10.0, 10.0), (20.0, 40.0)], start=1):
        bench.write(run.stages(step, start_s), run.loop(step, start_s, length_s))
    bench.clock.seconds = 61.0
    summary = find(bench, run_id)
    assert (summary.name, summary.mode, summary.mode_source) == ("Seven", "sync", "declared")
    assert (summary.first_step, summary.last_step, summary.num_steps) == (1, 3, 3)
    assert summary.step_duration_s == 10.0
    assert summary.throughput_tokens_per_s_per_gpu == pytest.approx(50.0)
    assert summary.mfu_step is None
    assert summary.state == "live"
    assert summary.verdict is not None


def test_a_hang_is_an_open_stage_that_grows_older_than_usual(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0), run.whole_step(2, 10.0))
    bench.write(run.announce(3, "step", 20.0), run.announce(3, "gen", 20.1))
    bench.clock.seconds = 25.0
    early = find(bench, run_id)
    assert early.state == "live"
    assert early.open_stage is not None
    assert (early.open_stage.stage, early.open_stage.usual_s) == ("gen", 6.0)
    # The loop hangs in gen; only its heartbeat thread goes on.
    for seen_s in (100.0, 180.0):
        bench.write(
            run.announce(3, "step", 20.0, seen_s=seen_s),
            run.announce(3, "gen", 20.1, seen_s=seen_s),
        )
    bench.clock.seconds = 181.0
    hung = find(bench, run_id)
    assert hung.state == "stalled"
    assert hung.open_stage is not None
    assert (hung.open_stage.step, hung.open_stage.stage) == (3, "gen")
    age_s = (bench.clock.now_ns() - hung.open_stage.since_ns) / 1e9
    assert age_s == pytest.approx(160.9)
    assert hung.open_stage.usual_max_s is not None
    assert age_s > hung.open_stage.usual_max_s


def test_the_announced_step_comes_last_and_is_open(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0), run.announce(2, "step", 10.0))
    bench.clock.seconds = 12.0
    steps = bench.service.list_steps(run_id)
    assert [(step.step, step.closed_by) for step in steps] == [(1, "loop"), (2, None)]
    assert steps[-1].start_ns == run.at(10.0)
    assert steps[-1].duration_s is None
    detail = bench.service.get_step(run_id, 2)
    assert detail.diagnosis.verdict is None
    assert detail.gpus == ()
    # A range that does not hold it does not show it.
    assert len(bench.service.list_steps(run_id, 1, 1)) == 1


def test_the_open_step_starts_when_it_was_announced(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    bench.write(run.announce(2, "step", 10.0), run.stages(2, 10.4, [("gen", 0.0, 1.0)]))
    bench.clock.seconds = 13.0
    opened = bench.service.list_steps(run_id)[-1]
    assert (opened.step, opened.closed_by, len(opened.stages)) == (2, None, 1)
    open_stage = find(bench, run_id).open_stage
    assert open_stage is not None
    assert opened.start_ns == open_stage.step_since_ns == run.at(10.0)
    assert bench.service.get_step(run_id, 2).step.start_ns == run.at(10.0)


def test_a_silent_run_is_lost_and_an_ended_one_is_not(bench: ServiceBench, run_id: str):
    silent, ended = RunScript(run_id + "/silent"), RunScript(run_id + "/ended")
    bench.write(silent.start(), silent.whole_step(1, 0.0))
    bench.write(ended.start(), ended.whole_step(1, 0.0), ended.end(11.0))
    bench.clock.seconds = 10.0 + 121.0
    assert find(bench, silent.run_id).state == "lost"
    assert find(bench, ended.run_id).state == "finished"
    assert find(bench, ended.run_id).open_stage is None


def test_a_mode_that_is_not_declared_is_inferred(bench: ServiceBench, run_id: str):
    plain, fully = RunScript(run_id + "/plain"), RunScript(run_id + "/fully")
    bench.write(plain.start(), plain.whole_step(1, 0.0))
    logged = {"timing_s/step": 10.0, "fully_async/monitor/active_tasks_size": 3.0}
    bench.write(fully.start(), fully.scalars(1, 10.0, logged))
    for run, mode in ((plain, "sync"), (fully, "fully_async")):
        summary = find(bench, run.run_id)
        assert (summary.mode, summary.mode_source) == (mode, "inferred")


def test_live_runs_come_first(bench: ServiceBench, run_id: str):
    old, live = RunScript(run_id + "/old"), RunScript(run_id + "/live")
    bench.write(live.start(), live.whole_step(1, 0.0))
    bench.write(old.start(), old.whole_step(1, 5.0), old.end(20.0))
    bench.clock.seconds = 21.0
    states = [run.state for run in bench.service.list_runs()]
    first_over = next(i for i, state in enumerate(states) if state not in {"live", "stalled"})
    assert not {"live", "stalled"} & set(states[first_over:])
    ids = [run.run_id for run in bench.service.list_runs()]
    assert ids.index(live.run_id) < ids.index(old.run_id)


def test_a_step_with_its_gpus_lanes_and_sync_phases(bench: ServiceBench, run_id: str):
    run = RunScript(run_id, gpu_ids=("GPU-a", "GPU-b"))
    bench.clock.seconds = 12.0
    bench.write(
        run.start(),
        merge(gpu_samples("GPU-a", 0, 0, 12, 0.9), gpu_samples("GPU-b", 1, 0, 12, 0.01)),
    )
    assert bench.joiner.join()
    bench.write(
        run.whole_step(1, 0.0),
        run.stages(1, 0.0, [("gen", 0.5, 5.5)], role="rollout", pid=77),
        run.sample("t1", 0.0, 5.0, step=1, replica="replica-1"),
    )
    bench.write(run.whole_step(2, 10.0))
    detail = bench.service.get_step(run_id, 1)
    assert [gpu.gpu_uuid for gpu in detail.gpus] == ["GPU-a", "GPU-b"]
    assert [(lane.role, lane.pid, lane.stage) for lane in detail.lanes] == [("rollout", 77, "gen")]
    assert detail.replicas == ("replica-1",)
    assert (detail.previous, detail.following) == (None, 2)
    assert detail.usual_s == 10.0
    assert detail.step.duration_s == 10.0
    # What another process did in the meantime is a lane, never in the sum.
    gen = detail.step.stage("gen")
    assert gen is not None
    assert gen.exclusive_s == 6.0
    assert any(gap.gpu_count == 1 for gap in detail.gaps)
    assert find(bench, run_id).gpu_count == 2


def test_the_join_is_written_once_as_long_as_nothing_changes(bench: ServiceBench, run_id: str):
    run = RunScript(run_id, host="node-7", gpu_ids=(f"GPU-of-{run_id}",))
    bench.clock.seconds = 12.0
    bench.write(run.start(), gpu_samples(f"GPU-of-{run_id}", 0, 0, 12, 0.9, host="node-7"))
    assert bench.joiner.join()
    bench.derive()
    version = bench.changes.current.version
    assert not bench.joiner.join()
    bench.derive()
    assert bench.changes.current.version == version


def test_a_crashed_and_resumed_attempt_ends_and_releases_its_gpus(bench: ServiceBench, run_id: str):
    gpu = f"GPU-of-{run_id}"
    first = RunScript(run_id, host="node-5", gpu_ids=(gpu,))
    again = RunScript(
        run_id, attempt=2, begin_ns=first.at(30.0), pid=5_000, host="node-5", gpu_ids=(gpu,)
    )
    bench.clock.seconds = 12.0
    bench.write(first.start(), gpu_samples(gpu, 0, 0, 12, 0.9, host="node-5"))
    bench.write(first.whole_step(1, 0.0))
    bench.clock.seconds = 32.0
    bench.write(again.start(), gpu_samples(gpu, 0, 12, 32, 0.9, host="node-5"))
    assert bench.joiner.join()
    attempts = bench.service.get_run(run_id).attempts
    assert [(attempt.ended_ns, attempt.status) for attempt in attempts] == [
        (first.at(10.0), "superseded"),
        (None, None),
    ]
    held = bench.reader.list_run_gpus(run_id)
    assert [(gpu.attempt, gpu.until_ns) for gpu in held] == [(1, first.at(10.0)), (2, None)]


def test_steps_that_came_before_their_gpus_get_them(bench: ServiceBench, run_id: str):
    run = RunScript(run_id, host="node-8", gpu_ids=(f"GPU-of-{run_id}",))
    bench.write(run.start(), run.whole_step(1, 0.0))
    (before,) = bench.service.list_steps(run_id)
    assert before.throughput_tokens_per_s_per_gpu is None
    bench.clock.seconds = 12.0
    bench.write(gpu_samples(f"GPU-of-{run_id}", 0, 0, 12, 0.9, host="node-8"))
    assert bench.joiner.join()
    bench.derive()
    (after,) = bench.service.list_steps(run_id)
    assert after.throughput_tokens_per_s_per_gpu == pytest.approx(100.0)


def test_samples_of_a_step(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(
        run.start(),
        *(
            run.sample(f"t{n}", 0.0, 1.0 + n, step=1, group_id="g", output_tokens=100 * n)
            for n in range(5)
        ),
        run.sample("unknown length", 0.0, 0.5, step=1, output_tokens=None),
        run.whole_step(1, 0.0),
    )
    slowest = bench.service.list_trajectories(run_id, 1, limit=2)
    assert [sample.trajectory_id for sample in slowest] == ["t4", "t3"]
    distribution = bench.service.get_distribution(run_id, 1)
    assert distribution.count == 6
    assert sorted(distribution.durations_s) == [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert sum(map(math.isnan, distribution.output_tokens)) == 1
    assert [ratio for ratio, _ in distribution.stop_at] == [0.8, 0.9, 0.95]
    detail = bench.service.get_trajectory(run_id, "t2")
    assert [part.kind for part in detail.spans] == ["generate"]
    assert {sibling.trajectory_id for sibling in detail.siblings} == {"t0", "t1", "t3", "t4"}


def test_the_long_tail_of_a_step(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    samples = [run.sample(f"t{n}", 0.0, 1.0 + n, step=1, group_id="g") for n in range(4)]
    slow = samples[-1].trajectories[0]
    samples[-1].trajectories[0] = replace(slow, tool_s=3.0, generate_s=1.0)
    part = samples[-1].trajectory_spans[0]
    tools = [("search", 1.0, 1.5), ("python", 1.5, 2.5), ("search", 2.5, 2.75)]
    samples[-1].trajectory_spans.extend(
        replace(
            part,
            kind="tool",
            name=name,
            start_ns=run.at(begin),
            end_ns=run.at(end),
            span_id=f"{name}-{begin}",
        )
        for name, begin, end in tools
    )
    bench.write(run.start(gpu_count=2), *samples, run.whole_step(1, 0.0))
    tail = bench.service.get_step(run_id, 1).long_tail
    assert tail is not None
    assert (tail.num_samples, tail.gen_s, tail.rollout_gpus) == (4, 6.0, 2)
    assert tail.idle_ratio == pytest.approx(1 - 10 / 24)
    assert tail.waste_gpu_s == pytest.approx(14 / 4 * 2)
    assert tail.by_activity[0].id == "python"
    distribution = bench.service.get_distribution(run_id, 1)
    assert distribution.running == ((0, 4), (1, 3), (2, 2), (3, 1), (4, 0), (6, 0))


def test_a_step_without_samples_has_no_tail_and_says_why(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0), run.announce(2, "step", 10.0))
    closed, opened = (bench.service.get_step(run_id, step) for step in (1, 2))
    assert closed.long_tail is opened.long_tail is None
    assert closed.long_tail_reason == "no training sample of this step is reported"
    assert opened.long_tail_reason == "the step has not ended"


def test_a_step_without_samples_has_an_empty_distribution(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    assert bench.service.get_distribution(run_id, 1).count == 0
    assert bench.service.list_trajectories(run_id, 1) == []


def test_metrics_are_found_under_their_canonical_name(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(
        run.start(),
        *(run.scalars(n, 10.0 * n, {"critic/score/mean": n / 10}) for n in (1, 2)),
    )
    for name in ("critic/score/mean", "reward_mean"):
        series = bench.service.get_metric(run_id, name)
        assert [(step, value) for step, _, value in series.points] == [(1, 0.1), (2, 0.2)]
    assert bench.service.get_metric(run_id, "never/logged").points == ()


def test_a_range_is_diagnosed(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=2), *(run.whole_step(n, 10.0 * n) for n in range(1, 6)))
    whole = bench.service.diagnose(run_id)
    assert whole.verdict == "rollout.unexplained"
    assert sum(whole.shares.values()) == pytest.approx(1.0, abs=1e-6)
    # The first step of an attempt warms up and is not judged.
    assert [excluded.step for excluded in whole.excluded] == [1]
    part = bench.service.diagnose(run_id, 3, 4)
    assert [step.step for step in part.steps] == [3, 4]
    assert bench.service.get_step(run_id, 3).diagnosis.verdict == "rollout.unexplained"


def test_an_open_range_is_what_is_read_anew(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=2), *(run.whole_step(n, 10.0 * n) for n in range(1, 6)))
    for more in ((6, 7), (8,), (3,)):
        bench.derive()
        kept = bench.service.diagnose(run_id, 1)
        assert kept == bench.reopened().service.diagnose(run_id, 1)
        bench.write(*(run.whole_step(n, 10.0 * n) for n in more))
    # A resume does two steps again.
    again = RunScript(run_id, attempt=2, begin_ns=run.at(200.0), pid=9)
    bench.write(again.start(gpu_count=2), *(again.whole_step(n, 10.0 * n) for n in (7, 8)))
    bench.derive()
    kept = bench.service.diagnose(run_id, 1)
    assert kept == bench.reopened().service.diagnose(run_id, 1)
    assert [step.step for step in kept.steps] == [2, 3, 4, 5, 6, 7, 8]


def test_verdict_changes_of_a_run(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(gpu_count=2))
    synced = (("gen", 0.0, 2.0), ("update_weights", 2.0, 9.0))
    for number in range(1, 21):
        begin_s = 10.0 * number
        stages = synced if number > 12 or number == 6 else PLAIN_STAGES
        bench.write(merge(run.stages(number, begin_s, stages), run.loop(number, begin_s)))
    assert bench.service.list_verdict_changes(run_id) == (
        VerdictChange(1, "rollout.unexplained", None),
        VerdictChange(13, "sync.weights", "rollout.unexplained"),
    )
    assert bench.service.diagnose(run_id, 7, 20).annotations == (
        VerdictChange(7, "rollout.unexplained", None),
        VerdictChange(13, "sync.weights", "rollout.unexplained"),
    )
    with pytest.raises(NotFoundError):
        bench.service.list_verdict_changes(f"{run_id}/other")


def test_what_was_noted_on_arrival_stands_in_run_and_diagnosis(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(notes=("The last line is torn.",)), run.whole_step(1, 0.0))
    (note,) = bench.service.get_run(run_id).notes
    assert note.summary == "The last line is torn."
    assert note in bench.service.diagnose(run_id).data_quality


def test_a_run_without_closed_step_has_no_verdict(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.stages(1, 0.0))
    diagnosis = bench.service.diagnose(run_id)
    assert diagnosis.verdict is None
    assert "no_closed_step" in {note.code for note in diagnosis.data_quality}


def test_gpu_heatmap_of_a_run(bench: ServiceBench, run_id: str):
    run = RunScript(run_id, host="node-9", gpu_ids=(f"GPU-of-{run_id}",))
    bench.clock.seconds = 20.0
    bench.write(run.start(), gpu_samples(f"GPU-of-{run_id}", 0, 0, 20, 0.5, host="node-9"))
    bench.joiner.join()
    heatmap = bench.service.get_gpu_heatmap(
        run_id, "utilization_ratio", run.at(0.0), run.at(20.0), 10
    )
    assert [lane.host for lane in heatmap.lanes] == ["node-9"]
    assert heatmap.values.shape[1] <= 10
    assert heatmap.values[0][:9] == pytest.approx(0.5, abs=1e-3)


def test_unknown_things_are_not_found(bench: ServiceBench, run_id: str):
    service = bench.service
    for ask in (
        lambda: service.get_run("nobody"),
        lambda: service.list_steps("nobody"),
        lambda: service.get_step("nobody", 1),
        lambda: service.diagnose("nobody"),
        lambda: service.get_metric("nobody", "x"),
        lambda: service.get_trajectory("nobody", "x"),
        lambda: service.get_gpu_heatmap("nobody", "power_watts", 0, 1, 1),
    ):
        with pytest.raises(NotFoundError):
            ask()
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    with pytest.raises(NotFoundError):
        service.get_step(run_id, 99)
    with pytest.raises(NotFoundError):
        service.get_trajectory(run_id, "nothing")


def test_limits_and_fields_are_checked(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(), run.whole_step(1, 0.0))
    with pytest.raises(BadRequestError):
        bench.service.list_trajectories(run_id, 1, limit=10_002)
    with pytest.raises(BadRequestError):
        bench.service.get_gpu_heatmap(run_id, "drop table", 0, 1, 1)
    with pytest.raises(BadRequestError):
        bench.service.get_gpu_heatmap(run_id, "power_watts", 1, 1, 1)
