"""What engines report, through the store, to the alert: once live, and the same in a replay."""

from collections.abc import Sequence

import pytest

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.model.alert import Alert
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import (
    EngineSample,
    GpuSample,
    HostSample,
    ProcessSeen,
    Records,
    TrajectoryRecord,
)
from longpole_server.service.engine_steps import RunPlace, locate_replicas
from support.server_runs import BEGIN_NS, RunScript, S, merge
from support.server_service import ServiceBench

_STEP_S = 10.0
_SCRAPE_S = 0.5


def scrape(run: RunScript, replica: str, step: int, floor: float, tokens_before: float) -> Records:
    """A step of vLLM's page: six seconds of work, four of rest."""
    begin_s, records = (step - 1) * _STEP_S, Records()
    for count in range(round(_STEP_S / _SCRAPE_S)):
        at_s = count * _SCRAPE_S + 0.1
        work = min(1.0, at_s / 5.5)
        is_busy = work < 1.0
        page = {
            "vllm:num_requests_running": 32.0 * (1 - work),
            "vllm:num_requests_waiting": 0.0,
            "vllm:kv_cache_usage_perc": floor + (0.4 * (1 - work) if is_busy else 0.0),
            "vllm:generation_tokens_total": tokens_before + 1_000 * work,
            'vllm:cache_config_info{block_size="16",num_gpu_blocks="5000"}': 1.0,
            'vllm:request_success_total{finished_reason="length"}': 1.0,
        }
        records.engine_samples += [
            EngineSample(run.run_id, run.attempt, replica, name, run.at(begin_s + at_s), value)
            for name, value in page.items()
        ]
    return records


def train(bench: ServiceBench, run: RunScript, floors: dict[str, Sequence[float]]) -> None:
    """Steps in order, judged as they close."""
    for index in range(min(map(len, floors.values()))):
        step = index + 1
        scraped = [
            scrape(run, replica, step, levels[index], 1_000.0 * index)
            for replica, levels in floors.items()
        ]
        bench.write(merge(*scraped, run.whole_step(step, index * _STEP_S)))
        bench.clock.seconds = step * _STEP_S + 1.0
        bench.alert_desk.evaluator.process()


def leaks(alerts: Sequence[Alert]) -> list[tuple[str, str, str]]:
    return [
        (alert.rule, alert.entity.id, alert.state) for alert in alerts if alert.rule == "kv.leak"
    ]


def test_a_leaking_replica_is_told_once_and_a_replay_says_the_same(
    bench: ServiceBench, run_id: str
):
    run = RunScript(run_id)
    bench.write(run.start())
    train(
        bench,
        run,
        {
            "engine-0": [0.01 + 0.006 * index for index in range(36)],
            "engine-1": [0.01 + 0.002 * (index % 3) for index in range(36)],
        },
    )
    alerts = list(bench.service.alerts.list_alerts(run_id=run_id))
    assert leaks(alerts) == [("kv.leak", "engine-0", "firing")]
    (alert,) = alerts
    assert "leaks KV pool: at rest it holds" in alert.summary
    assert "full in" in alert.summary
    replayed = bench.service.alerts.replay(run_id)
    assert leaks(replayed) == [("kv.leak", "engine-0", "firing")]
    (again,) = [each for each in replayed if each.rule == "kv.leak"]
    assert (again.started_ns, again.first_step) == (alert.started_ns, alert.first_step)
    quiet = [
        seen
        for rule in bench.service.alerts.list_rules()
        if rule.rule_id == "kv.leak"
        for seen in rule.inputs
        if seen.entity.id == "engine-1" and seen.run_id == run_id
    ]
    assert quiet[0].state == "quiet"
    assert quiet[0].quiet_because is not None
    assert "comes back to" in quiet[0].quiet_because


def test_a_restarted_server_knows_the_floors_again(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start())
    train(bench, run, {"engine-0": [0.01 + 0.006 * index for index in range(22)]})
    later = bench.reopened()
    for index in range(22, 34):
        step = index + 1
        scraped = scrape(run, "engine-0", step, 0.01 + 0.006 * index, 1_000.0 * index)
        later.write(merge(scraped, run.whole_step(step, index * _STEP_S)))
        later.clock.seconds = step * _STEP_S + 1.0
        later.alert_desk.evaluator.process()
    assert leaks(list(later.service.alerts.list_alerts(run_id=run_id))) == [
        ("kv.leak", "engine-0", "firing")
    ]


def test_memory_at_rest_is_that_of_the_replicas_own_gpus_and_node(bench: ServiceBench, run_id: str):
    host = run_id.replace("/", "-")
    run = RunScript(run_id, host=host, gpu_ids=(f"{run_id}-0",))
    bench.write(run.start(gpu_count=1))
    gib = 1 << 30
    for index in range(4):
        begin_s = index * _STEP_S
        hardware = Records()
        for second in range(round(_STEP_S)):
            ts_ns = BEGIN_NS + round((begin_s + second) * S)
            used = (70 if second < 6 else 20 + index) * gib
            hardware.gpu_samples.append(
                GpuSample(
                    host,
                    f"{run_id}-0",
                    0,
                    ts_ns,
                    "NVIDIA H100 80GB HBM3",
                    memory_used_bytes=used,
                    memory_total_bytes=80 * gib,
                )
            )
            hardware.host_samples.append(
                HostSample(host, ts_ns, memory_used_bytes=300 * gib, memory_total_bytes=1_000 * gib)
            )
        bench.write(hardware)
        bench.joiner.join()
        scraped = scrape(run, f"{host}:8000", index + 1, 0.01, 1_000.0 * index)
        bench.write(merge(scraped, run.whole_step(index + 1, begin_s)))
    points = bench.alert_desk.histories.update_steps(run_id, 1).points
    rests = [rest for point in points for rest in point.engines[f"{host}:8000"].rests]
    levels = sorted({rest.device_bytes for rest in rests if rest.device_bytes is not None})
    assert levels == [(20 + index) * gib for index in range(4)]
    known = [rest for rest in rests if rest.device_bytes is not None]
    assert {rest.device_total_bytes for rest in known} == {80.0 * gib}
    assert {rest.host_bytes for rest in known} == {300.0 * gib}


def test_versions_of_samples_are_lags(bench: ServiceBench, run_id: str):
    run = RunScript(run_id)
    bench.write(run.start(staleness_bound=2.0))
    records = Records(
        trajectories=[
            TrajectoryRecord(
                run_id,
                1,
                1,
                f"sample-{index}",
                run.at(0.0),
                run.at(5.0),
                policy_version_start=version,
                policy_version_end=9,
                reward=float(index % 2),
                replica="replica-0",
            )
            for index, version in enumerate([9] * 18 + [5, 7])
        ]
    )
    bench.write(merge(records, run.whole_step(1, 0.0)))
    (point,) = bench.alert_desk.histories.update_steps(run_id, 1).points
    assert point.samples is not None
    assert (point.samples.version_min, point.samples.version_max) == (5, 9)
    assert point.samples.lag_mean == pytest.approx(0.3)
    assert point.samples.flight_mean == pytest.approx(0.3)
    assert point.samples.reward_split == pytest.approx(1.0)
    bench.clock.seconds = 12.0
    bench.alert_desk.evaluator.process()
    (alert,) = bench.service.alerts.list_alerts(run_id=run_id)
    assert (alert.rule, alert.value) == ("staleness.bound_exceeded", 4.0)


def gpu(host: str, index: int) -> RunGpu:
    return RunGpu("run", 1, host, f"GPU-{host}-{index}", index, "rollout", 0, None, "gpu_ids")


def process(host: str, instance: str | None, *gpu_ids: str) -> ProcessSeen:
    return ProcessSeen("run", 1, host, 1, "rollout", 0, gpu_ids, instance)


def test_where_replicas_run():
    gpus = tuple(gpu(host, index) for host in ("a", "b") for index in range(2))
    place = RunPlace(
        gpus,
        (process("a", "left", "0"), process("a", "right", "GPU-a-1"), process("b", "alone")),
    )
    found = locate_replicas(["alone", "left", "right", "unknown"], place)
    assert found["left"].gpus == {"GPU-a-0"}
    assert found["right"].gpus == {"GPU-a-1"}
    # The only replica of its node has the node's GPUs.
    assert found["alone"].gpus == {"GPU-b-0", "GPU-b-1"}
    # The node's memory belongs to both: one of them stands for it.
    assert [found[name].host for name in ("left", "right")] == ["a", None]
    assert not found["unknown"].gpus
    assert found["unknown"].host is None


def test_a_replica_may_be_named_after_its_node_and_port():
    gpus = (gpu("10.0.0.1", 0), gpu("10.0.0.2", 0))
    found = locate_replicas(["10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.2:8001"], RunPlace(gpus))
    assert found["10.0.0.1:8000"].gpus == {"GPU-10.0.0.1-0"}
    assert not found["10.0.0.2:8000"].gpus
    assert found["10.0.0.2:8000"].host == "10.0.0.2"


def test_the_catalogue_judges_leaks_by_replica():
    (rule,) = [each for each in BUILT_IN_RULES if each.rule_id == "kv.leak"]
    assert (rule.entity_kind, rule.trigger, rule.kind) == ("replica", "step", "trend")
