from longpole_server.model.records import Records
from longpole_server.service.touched import AttemptKey, StepKey, Touched, find_touched
from support.server_runs import RunScript, gpu_samples, merge

RUN = RunScript("run", attempt=2)


def key(step: int) -> StepKey:
    return StepKey("run", 2, step)


def test_windows_and_scalars_touch_their_steps():
    touched = find_touched(
        merge(RUN.stages(1, 0.0), RUN.loop(2, 10.0), RUN.scalars(3, 30.0, {"x": 1.0}))
    )
    assert touched.windows == {key(1), key(2), key(3)}


def test_samples_touch_their_step_or_leave_a_loose_end():
    touched = find_touched(merge(RUN.sample("a", 0.0, 1.0, step=4), RUN.sample("b", 0.0, 2.0)))
    assert touched.samples == {key(4)}
    assert touched.loose_ends_ns == {AttemptKey("run", 2): [RUN.at(2.0)]}
    assert touched.windows == set()


def test_an_opening_is_told_from_a_heartbeat():
    assert find_touched(RUN.announce(1, "gen", 5.0)).opened
    heartbeat = find_touched(RUN.announce(1, "gen", 5.0, seen_s=25.0))
    assert not heartbeat.opened
    assert heartbeat.pulse
    assert heartbeat.announced_ns == {key(1): RUN.at(5.0)}


def test_runs_are_touched_by_their_start_and_end():
    assert find_touched(merge(RUN.start(), RUN.end(9.0))).runs == {"run"}


def test_gpu_samples_are_a_pulse_and_nothing_is_nothing():
    touched = find_touched(gpu_samples("GPU-a", 0, 0, 2, 0.5))
    assert touched == Touched(pulse=True)
    assert touched
    assert not find_touched(Records())


def test_merging_keeps_everything():
    merged = find_touched(RUN.announce(1, "step", 5.0))
    merged.merge(find_touched(RUN.announce(1, "step", 4.0, seen_s=20.0)))
    merged.merge(find_touched(RUN.stages(7, 0.0)))
    merged.merge(find_touched(RUN.sample("b", 0.0, 2.0)))
    assert merged.announced_ns == {key(1): RUN.at(4.0)}
    assert merged.windows == {key(7)}
    assert merged.opened
    assert list(merged.loose_ends_ns.values()) == [[RUN.at(2.0)]]
