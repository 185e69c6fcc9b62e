from collections.abc import Callable
from typing import Any

import pytest

from longpole.conventions.gpus import GPU_FAULTS, GPU_METRICS, GPU_TRAITS
from longpole_server.ingest.normalize.hardware import NetworkRates
from longpole_server.model.records import (
    GpuAllocation,
    GpuProcess,
    GpuSample,
    HostProcess,
    HostSample,
)
from support import otlp_builders as otlp
from support.otlp_normalizing import Feed

AGENT = otlp.resource(service__name="longpole-agent", host__name="node0", process__pid=7)
GPU0 = {"hw.id": "GPU-0", "gpu.index": 0, "hw.model": "H100"}
GPU1 = {"hw.id": "GPU-1", "gpu.index": 1, "hw.model": "H100"}


def test_points_of_one_gpu_and_time_are_one_sample() -> None:
    metrics = [
        otlp.gauge("hw.gpu.utilization", [(1, 0.5, GPU0), (2, 0.6, GPU0), (1, 0.7, GPU1)]),
        otlp.gauge("hw.gpu.memory.usage", [(1, 1024, GPU0)]),
        otlp.counter("hw.energy", [(1, 12.5, GPU0)]),
    ]

    records = Feed().metrics(AGENT, metrics, at_s=2)

    assert records.gpu_samples == [
        GpuSample(
            "node0",
            "GPU-0",
            0,
            otlp.at(1),
            "H100",
            utilization_ratio=0.5,
            memory_used_bytes=1024,
            energy_joules=12.5,
        ),
        GpuSample("node0", "GPU-0", 0, otlp.at(2), "H100", utilization_ratio=0.6),
        GpuSample("node0", "GPU-1", 1, otlp.at(1), "H100", utilization_ratio=0.7),
    ]
    assert len(records) == 3


@pytest.mark.parametrize(
    "metric", (*GPU_METRICS, *GPU_TRAITS, *GPU_FAULTS), ids=lambda metric: metric.metric
)
def test_every_gpu_metric_has_its_column(metric: object) -> None:
    kind = next(known for known in (*GPU_METRICS, *GPU_TRAITS, *GPU_FAULTS) if known is metric)

    (sample,) = (
        Feed().metrics(AGENT, [otlp.gauge(kind.metric, [(1, 1.0, GPU0)])], at_s=1).gpu_samples
    )

    assert getattr(sample, kind.column) == 1


def test_a_value_that_is_none_or_no_number_is_not_reported() -> None:
    metrics = [
        otlp.gauge("hw.gpu.utilization", [(1, float("nan"), GPU0)]),
        otlp.gauge("hw.power", [(1, None, GPU0)]),
        otlp.gauge("hw.temperature", [(1, 50.0, GPU0)]),
    ]

    (sample,) = Feed().metrics(AGENT, metrics, at_s=1).gpu_samples

    assert (sample.utilization_ratio, sample.power_watts) == (None, None)
    assert sample.temperature_celsius == 50.0


def test_parts_of_a_gpu_and_other_hardware_are_no_gpu_samples() -> None:
    feed = Feed()
    metrics = [
        otlp.gauge("hw.gpu.utilization", [(1, 0.9, {**GPU0, "hw.gpu.task": "encoder"})]),
        otlp.gauge("hw.temperature", [(1, 30.0, {"hw.id": "disk0", "hw.type": "disk"})]),
        otlp.gauge("hw.power", [(1, 30.0, {})]),
        otlp.gauge("hw.fan.speed", [(1, 1000, {"hw.id": "fan0"})]),
    ]

    records = feed.metrics(AGENT, metrics, at_s=1)

    assert len(records) == 0
    assert feed.normalizer.stats.num_ignored == 4


def test_processes_on_a_gpu() -> None:
    metric = otlp.gauge(
        "process.gpu.memory.usage",
        [(1, 2048, {**GPU0, "process.pid": 17}), (1, None, {**GPU1, "process.pid": 18})],
    )

    records = Feed().metrics(AGENT, [metric], at_s=1)

    assert records.gpu_processes == [
        GpuProcess("node0", "GPU-0", 17, otlp.at(1), 2048),
        GpuProcess("node0", "GPU-1", 18, otlp.at(1), None),
    ]


def test_the_job_and_the_pod_of_a_process_on_a_gpu() -> None:
    owner = {"slurm.job.id": "77", "ray.job.id": "01000000", "k8s.pod.uid": "u"}
    metric = otlp.gauge(
        "process.gpu.memory.usage", [(1, 2048, {**GPU0, "process.pid": 17, **owner})]
    )

    (process,) = Feed().metrics(AGENT, [metric], at_s=1).gpu_processes

    assert process == GpuProcess("node0", "GPU-0", 17, otlp.at(1), 2048, "u", "77", "01000000")


def test_pods_that_gpus_were_given_to() -> None:
    feed = Feed()
    pod = {"k8s.pod.name": "a", "k8s.namespace.name": "rl", "k8s.container.name": "main"}
    metric = otlp.gauge(
        "hw.gpu.allocation",
        [
            (1, 1, {"hw.id": "GPU-0", **pod}),
            (1, 1, {"hw.id": "GPU-1", "k8s.pod.name": "b"}),
            (1, 0, {"hw.id": "GPU-2", **pod}),
            (1, 1, {"hw.id": "GPU-3"}),
            (1, 1, pod),
        ],
    )

    records = feed.metrics(AGENT, [metric], at_s=1)

    assert records.gpu_allocations == [
        GpuAllocation("node0", "GPU-0", "rl", "a", "main", otlp.at(1)),
        GpuAllocation("node0", "GPU-1", "", "b", "", otlp.at(1)),
    ]
    assert len(records) == 2
    assert feed.normalizer.stats.num_ignored == 3


def test_host_points_of_one_time_are_one_sample() -> None:
    feed = Feed()

    def sample(second: float, received: int) -> list[HostSample]:
        metrics = [
            otlp.gauge("system.cpu.utilization", [(second, 0.25, {})]),
            otlp.gauge(
                "system.memory.usage",
                [
                    (second, 100, {"system.memory.state": "used"}),
                    (second, 900, {"system.memory.state": "free"}),
                ],
            ),
            otlp.gauge("system.memory.limit", [(second, 1000, {})]),
            otlp.counter(
                "system.network.io", [(second, received, {"network.io.direction": "receive"})]
            ),
        ]
        return feed.metrics(AGENT, metrics, at_s=second).host_samples

    assert sample(1, 1000) == [HostSample("node0", otlp.at(1), 0.25, 100, 1000)]
    assert sample(3, 5000) == [HostSample("node0", otlp.at(3), 0.25, 100, 1000, 2000.0)]
    assert sample(2, 3000)[0].network_receive_bytes_per_s is None
    assert sample(4, 10)[0].network_receive_bytes_per_s is None


def test_rates_of_several_interfaces_add_up() -> None:
    metric = otlp.gauge(
        "system.network.io",
        [
            (1, 5.0, {"network.io.direction": "transmit", "network.interface.name": "eth0"}),
            (1, 7.0, {"network.io.direction": "transmit", "network.interface.name": "eth1"}),
        ],
        unit="By/s",
    )

    (sample,) = Feed().metrics(AGENT, [metric], at_s=1).host_samples

    assert sample.network_transmit_bytes_per_s == 12.0


def test_hardware_metrics_of_any_sender_belong_to_no_run() -> None:
    feed = Feed()

    records = feed.metrics(otlp.process(), [otlp.gauge("hw.power", [(1, 300.0, GPU0)])], at_s=1)

    assert len(records) == len(records.gpu_samples) == 1


def test_a_trainer_may_log_a_name_that_looks_like_hardware() -> None:
    metric = otlp.gauge("system.tps", [(1, 300.0, {"rl.loop.iteration": 2})])

    records = Feed().metrics(otlp.process(), [metric], at_s=1)

    assert [point.name for point in records.metric_points] == ["system.tps"]


def test_what_an_agent_says_of_its_spool_belongs_to_its_node() -> None:
    metrics = [
        otlp.gauge("longpole.agent.spool.utilization", [(1, 0.5, {})]),
        otlp.gauge("longpole.agent.disk.utilization", [(1, 0.25, {})]),
        otlp.counter("longpole.agent.dropped", [(1, 3, {})]),
        otlp.gauge("longpole.agent.clock.offset", [(1, -31.5, {})]),
    ]

    (sample,) = Feed().metrics(AGENT, metrics, at_s=1).host_samples

    assert (sample.spool_used_ratio, sample.disk_used_ratio) == (0.5, 0.25)
    assert (sample.agent_dropped_total, sample.clock_offset_s) == (3, -31.5)


def test_the_agents_other_counters_are_ignored() -> None:
    records = Feed().metrics(AGENT, [otlp.counter("longpole.agent.received", [(1, 0, {})])], at_s=1)

    assert len(records) == 0


def test_network_rates_forget_nothing_they_need() -> None:
    rates = NetworkRates()

    assert rates.measure(("a", "receive", ""), otlp.at(1), 100) is None
    assert rates.measure(("b", "receive", ""), otlp.at(1), 0) is None
    assert rates.measure(("a", "receive", ""), otlp.at(2), 300) == 200.0


def test_gpus_in_any_order_are_read_as_from_any_other_sender() -> None:
    def labels(gpu: int, **more: object) -> dict[str, object]:
        return {"hw.id": f"GPU-{gpu}", "gpu.index": gpu, "hw.model": "H100", **more}

    sent = [
        otlp.gauge("hw.gpu.utilization", [(1, 0.5, labels(0)), (1, 0.25, labels(1))]),
        otlp.gauge("hw.power", [(1, 300.0, labels(1)), (1, None, labels(0)), (2, 5, labels(2))]),
        otlp.gauge("hw.temperature", [(1, 60, labels(0)), (1, 9, labels(1, **{"hw.type": "fan"}))]),
        otlp.gauge("hw.gpu.utilization", [(1, 0.75, {"gpu.index": 3})]),
    ]
    node = {"host.name": "node0"}
    agent = Feed().metrics(otlp.resource({"service.name": "longpole-agent", **node}), sent, 3)
    other = Feed().metrics(otlp.resource({"service.name": "exporter", **node}), sent, 3)
    assert agent.gpu_samples == other.gpu_samples
    assert {sample.gpu_uuid for sample in agent.gpu_samples} >= {"GPU-0", "GPU-1"}


MIG = {
    "hw.id": "MIG-1",
    "gpu.index": 0,
    "hw.model": "A100 MIG 1g.10gb",
    "hw.parent": "GPU-0",
    "hw.gpu.mig.profile": "1g.10gb",
}


@pytest.mark.parametrize("kind", [otlp.gauge, otlp.counter])
def test_a_mig_device_names_its_gpu_and_its_size(kind: Callable[..., Any]) -> None:
    (sample,) = (
        Feed().metrics(AGENT, [kind("hw.gpu.sm_active", [(1, 0.5, MIG)])], at_s=1).gpu_samples
    )

    assert (sample.gpu_uuid, sample.parent_uuid, sample.mig_profile) == (
        "MIG-1",
        "GPU-0",
        "1g.10gb",
    )


def test_disks_and_fabrics_of_a_node_are_rates() -> None:
    feed = Feed()

    def sample(second: float, read: int, written: int, received: int) -> HostSample:
        metrics = [
            otlp.counter(
                "system.disk.io",
                [
                    (second, read, {"disk.io.direction": "read"}),
                    (second, written, {"disk.io.direction": "write"}),
                ],
            ),
            otlp.counter(
                "hw.network.io",
                [
                    (second, received, {"network.io.direction": "receive", "hw.id": "mlx5_0"}),
                    (second, received, {"network.io.direction": "receive", "hw.id": "mlx5_1"}),
                ],
            ),
            otlp.gauge("system.cpu.logical.count", [(second, 192, {})]),
        ]
        return feed.metrics(AGENT, metrics, at_s=second).host_samples[0]

    assert sample(1, 0, 0, 0).cpu_count == 192
    found = sample(3, 400, 1000, 50)
    assert (found.disk_read_bytes_per_s, found.disk_write_bytes_per_s) == (200.0, 500.0)
    assert (found.fabric_receive_bytes_per_s, found.fabric_transmit_bytes_per_s) == (50.0, None)


def test_what_ray_says_of_a_nodes_object_store() -> None:
    metrics = [
        otlp.gauge("ray.object_store.used", [(1, 9.0, {})]),
        otlp.gauge("ray.object_store.limit", [(1, 10.0, {})]),
        otlp.gauge("ray.object_store.fallback", [(1, 0.0, {})]),
        otlp.gauge("ray.object_store.spilled", [(1, 4.0, {})]),
        otlp.counter("ray.object_store.spill.written", [(1, 40, {})]),
        otlp.counter("ray.object_store.spill.restored", [(1, 30, {})]),
        otlp.counter("ray.workers.killed", [(1, 2, {})]),
    ]

    (sample,) = Feed().metrics(AGENT, metrics, at_s=1).host_samples

    assert (sample.object_store_used_bytes, sample.object_store_total_bytes) == (9, 10)
    assert (sample.object_store_fallback_bytes, sample.object_store_spilled_bytes) == (0, 4)
    assert (sample.spilled_bytes_total, sample.restored_bytes_total) == (40, 30)
    assert sample.workers_killed_total == 2


def test_processes_that_take_a_nodes_memory() -> None:
    title = {"process.title": "ray::TaskRunner"}
    metric = otlp.gauge(
        "process.memory.private",
        [
            (1, 2048, {"process.pid": 7, "ray.job.id": "01000000", **title}),
            (1, None, {"process.pid": 8, **title}),
            (1, 2048, {"process.pid": 9}),
            (1, 2048, title),
        ],
    )
    feed = Feed()

    records = feed.metrics(AGENT, [metric], at_s=1)

    assert records.host_processes == [
        HostProcess("node0", 7, otlp.at(1), "ray::TaskRunner", 2048, "01000000"),
        HostProcess("node0", 8, otlp.at(1), "ray::TaskRunner"),
    ]
    assert feed.normalizer.stats.num_ignored == 2


def test_what_a_process_on_a_gpu_does_and_its_rank() -> None:
    labels = {
        "process.pid": 7,
        "process.title": "ray::WorkerDict.update",
        "process.rank": 3,
        **GPU0,
    }
    metric = otlp.gauge("process.gpu.memory.usage", [(1, 5, labels)])

    (process,) = Feed().metrics(AGENT, [metric], at_s=1).gpu_processes

    assert (process.title, process.rank) == ("ray::WorkerDict.update", 3)
