from longpole_server.analysis.join import GpuIdentity, RunWindow, join_gpus
from longpole_server.model.records import GpuProcess, ProcessSeen

NODE = [GpuIdentity("node", f"GPU-{index:08d}", index, "NVIDIA H200") for index in range(4)]
LIVE = RunWindow("run", 1, 100, None)


def process(
    pid: int,
    role: str,
    gpu_ids: tuple[str, ...] = (),
    run_id: str = "run",
    host: str = "node",
    attempt: int = 1,
) -> ProcessSeen:
    return ProcessSeen(run_id, attempt, host, pid, role, 200, gpu_ids)


def test_declared_ids_win():
    declared = [process(1, "trainer", ("GPU-00000001",)), process(2, "controller")]
    held = [GpuProcess("node", "GPU-00000002", 1, 150)]
    joined = join_gpus(declared, held, NODE, [LIVE])
    assert [(gpu.gpu_uuid, gpu.role, gpu.how) for gpu in joined] == [
        ("GPU-00000001", "trainer", "gpu_ids")
    ]
    assert (joined[0].since_ns, joined[0].until_ns, joined[0].model) == (100, None, "NVIDIA H200")


def test_host_and_pid():
    held = [GpuProcess("node", f"GPU-{index:08d}", 10 + index, 150) for index in range(2)]
    held.append(GpuProcess("other", "GPU-00000003", 10, 150))
    joined = join_gpus([process(10, "rollout"), process(11, "trainer")], held, NODE, [LIVE])
    assert [(gpu.gpu_index, gpu.role, gpu.how) for gpu in joined] == [
        (0, "rollout", "pid"),
        (1, "trainer", "pid"),
    ]


def test_two_roles_on_one_gpu():
    held = [GpuProcess("node", "GPU-00000000", pid, 150) for pid in (10, 11)]
    joined = join_gpus([process(10, "rollout"), process(11, "trainer")], held, NODE, [LIVE])
    assert [gpu.role for gpu in joined] == ["hybrid"]


def test_only_run_on_the_node_is_estimated():
    joined = join_gpus([process(1, "controller")], [], NODE, [LIVE])
    assert [(gpu.gpu_index, gpu.role, gpu.how) for gpu in joined] == [
        (index, "", "estimated") for index in range(4)
    ]


def test_two_live_runs_on_a_node_are_not_estimated():
    other = RunWindow("other", 1, 150, None)
    seen = [process(1, "controller"), process(2, "controller", run_id="other")]
    assert join_gpus(seen, [], NODE, [LIVE, other]) == []


def test_runs_one_after_the_other_are_estimated():
    earlier = RunWindow("earlier", 1, 10, 90)
    seen = [process(1, "trainer"), process(2, "trainer", run_id="earlier")]
    joined = join_gpus(seen, [], NODE, [LIVE, earlier])
    assert {gpu.run_id for gpu in joined} == {"run", "earlier"}
    assert len(joined) == 8


def test_attempts_of_one_run_do_not_block_each_other():
    resumed = RunWindow("run", 2, 300, None)
    seen = [process(1, "trainer"), process(2, "trainer", attempt=2)]
    joined = join_gpus(seen, [], NODE, [RunWindow("run", 1, 100, 310), resumed])
    assert {gpu.attempt for gpu in joined} == {1, 2}


def test_gpus_of_nodes_without_processes_are_nobodys():
    away = GpuIdentity("away", "GPU-99999999", 0)
    joined = join_gpus([process(1, "trainer")], [], [*NODE, away], [LIVE])
    assert all(gpu.host == "node" for gpu in joined)


def test_declared_but_unknown_ids_are_not_estimated():
    assert join_gpus([process(1, "trainer", ("GPU-abcdefgh",))], [], NODE, [LIVE]) == []
