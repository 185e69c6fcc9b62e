from dataclasses import replace

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.history import GpuGroup, HardwareMinute, StepPoint
from longpole_server.alerts.replay import replay
from support.alert_histories import (
    at,
    make_gpu,
    make_host,
    make_point,
    make_run,
    points_of,
)


def shifted(point: StepPoint, seconds: float) -> StepPoint:
    step = point.step
    assert step.end_ns is not None
    return replace(
        point,
        step=replace(
            step,
            start_ns=step.start_ns + round(seconds * 1e9),
            end_ns=step.end_ns + round(seconds * 1e9),
        ),
    )


def test_a_healthy_run_raises_nothing() -> None:
    points = [
        make_point(number, {"critic/score/mean": 0.3 + 0.002 * number, "actor/grad_norm": 0.5})
        for number in range(1, 60)
    ]
    run = make_run(state="finished", last_seen_ns=at(600))
    alerts, events = replay(BUILT_IN_RULES, [(run, points)])
    assert not alerts
    assert not events


def test_a_collapse_is_found_in_the_time_of_the_data() -> None:
    values = [0.5 + 0.01 * (number % 3) for number in range(40)] + [0.0] * 6
    run = make_run(state="crashed", end_status="crashed", last_seen_ns=at(460))
    alerts, _ = replay(BUILT_IN_RULES, [(run, points_of("critic/score/mean", values))])
    found = {alert.rule: alert for alert in alerts}
    assert set(found) == {"reward.collapse", "trainer.gone"}
    assert found["reward.collapse"].started_ns == at(410)
    assert found["reward.collapse"].fired_ns == at(430)
    assert found["reward.collapse"].state == "resolved"
    assert found["trainer.gone"].state == "firing"


def test_a_gap_between_steps_was_a_stall() -> None:
    points = [make_point(number) for number in range(1, 20)]
    points = [*points[:10], *(shifted(point, 1_000) for point in points[10:])]
    run = make_run(state="finished", last_seen_ns=at(1_190))
    (alert,), _ = replay(BUILT_IN_RULES, [(run, points)])
    assert (alert.rule, alert.state) == ("run.stalled", "resolved")
    assert alert.resolved_ns == at(1_110)


def test_a_run_that_never_closed_another_step_was_stalled_before_it_was_gone() -> None:
    points = [make_point(number) for number in range(1, 20)]
    run = make_run(state="lost", last_seen_ns=at(1_000))
    alerts, events = replay(BUILT_IN_RULES, [(run, points)])
    assert [(event.rule, event.kind) for event in events] == [
        ("run.stalled", "firing"),
        ("run.stalled", "resolved"),
        ("trainer.gone", "firing"),
    ]
    assert events[0].ts_ns == at(310) + 1, "five steps are fewer than two minutes"
    assert {alert.rule for alert in alerts} == {"run.stalled", "trainer.gone"}


def test_gpus_that_spun_for_minutes_were_a_hang() -> None:
    points = [make_point(number) for number in range(1, 20)]
    spinning = {"utilization_ratio": 1.0, "power_watts": 120.0, "tensor_active_ratio": 0.0}
    minutes = [
        HardwareMinute(
            at(second),
            GpuGroup(make_gpu(index, newest_s=second, **spinning) for index in range(4)),
            (make_host(second),),
        )
        for second in range(60, 1_000, 60)
    ]
    run = make_run(state="lost", last_seen_ns=at(1_000))
    alerts, _ = replay(BUILT_IN_RULES, [(run, points)], lambda _: minutes)
    assert {alert.rule for alert in alerts} == {"run.stalled", "run.hang", "trainer.gone"}
