from dataclasses import replace

from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import GpuProcess, ProcessSeen, Records
from support.server_runs import RunScript
from support.server_service import ServiceBench


def hold(bench: ServiceBench, run: RunScript, *uuids: str) -> None:
    bench.writer.write_run_gpus(
        [
            RunGpu(run.run_id, 1, "node-7", uuid, index, "rollout", run.at(0), None, "pid")
            for index, uuid in enumerate(uuids)
        ]
    )


def write_sample(bench: ServiceBench, run: RunScript, replica: str, *more: Records) -> None:
    records = run.sample("t", 1.0, 2.0, step=1)
    records.trajectories[0] = replace(records.trajectories[0], replica=replica)
    bench.write(run.start(), records, run.whole_step(1, 0.0), *more)


def test_a_sample_leads_to_the_gpus_of_its_replica(bench: ServiceBench, run_id: str) -> None:
    run = RunScript(run_id)
    engine = ProcessSeen(run_id, 1, "node-7", 70, "rollout", run.at(1), instance="replica-1")
    declared = replace(engine, pid=71, instance="replica-2", gpu_ids=("GPU-sample-b",))
    memory = GpuProcess("node-7", "GPU-sample-a", 70, run.at(1.5), 1 << 30)
    write_sample(
        bench, run, "replica-1", Records(processes=[engine, declared], gpu_processes=[memory])
    )
    hold(bench, run, "GPU-sample-a", "GPU-sample-b")
    detail = bench.service.get_trajectory(run_id, "t")
    assert [gpu.gpu_uuid for gpu in detail.gpus] == ["GPU-sample-a"]
    assert detail.replica_hosts == ("node-7",)
    write_sample(bench, run, "replica-2")
    detail = bench.service.get_trajectory(run_id, "t")
    assert [gpu.gpu_uuid for gpu in detail.gpus] == ["GPU-sample-b"]


def test_a_replica_that_no_process_names_has_the_node_of_its_name_or_none(
    bench: ServiceBench, run_id: str
) -> None:
    run = RunScript(run_id)
    node = ProcessSeen(run_id, 1, "node-7", 70, "rollout", run.at(1))
    write_sample(bench, run, "node-7:8000/1", Records(processes=[node]))
    hold(bench, run, "GPU-other-a")
    detail = bench.service.get_trajectory(run_id, "t")
    assert (detail.gpus, detail.replica_hosts) == ((), ("node-7",))
    write_sample(bench, run, "somewhere")
    assert bench.service.get_trajectory(run_id, "t").replica_hosts == ()


def test_a_replica_leads_to_its_gpus_and_nodes_without_a_sample(
    bench: ServiceBench, run_id: str
) -> None:
    run = RunScript(run_id)
    engine = ProcessSeen(
        run_id, 1, "node-7", 70, "rollout", run.at(1), instance="replica-1",
        gpu_ids=("GPU-place-a",),
    )  # fmt: skip
    write_sample(bench, run, "replica-1", Records(processes=[engine]))
    hold(bench, run, "GPU-place-a", "GPU-place-b")
    span_ns = (run.at(1), run.at(2))
    gpus = bench.service.list_replica_gpus(run_id, "replica-1", *span_ns)
    assert [gpu.gpu_uuid for gpu in gpus] == ["GPU-place-a"]
    assert bench.service.list_replica_gpus(run_id, "replica-1", *span_ns, attempt=2) == ()
    assert bench.service.list_replica_gpus(run_id, "stranger", *span_ns) == ()
    hosts = bench.service.list_replica_hosts(run_id, ["replica-1", "stranger", "node-7:80/0"])
    assert hosts == {"replica-1": ("node-7",), "node-7:80/0": ("node-7",)}
