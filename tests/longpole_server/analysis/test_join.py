from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from longpole_server.analysis.gpu_evidence import Evidence, GpuIdentity, RunWindow
from longpole_server.analysis.join import GpuJoin, join_gpus
from longpole_server.model.gpu import GpuGrant, GpuHolder, RunGpu
from longpole_server.model.records import ProcessSeen

NODE = [GpuIdentity("node", f"GPU-{index:08d}", index, "NVIDIA H200") for index in range(4)]
LIVE = RunWindow("run", 1, 100, None)
OTHER = RunWindow("other", 1, 150, None)
UID = "0f6a2b1c-1111-2222-3333-444455556666"


def process(
    pid: int,
    role: str = "trainer",
    gpu_ids: tuple[str, ...] = (),
    run_id: str = "run",
    host: str = "node",
    attempt: int = 1,
    **owner: str | None,
) -> ProcessSeen:
    return ProcessSeen(run_id, attempt, host, pid, role, 200, gpu_ids, **owner)


def holder(
    index: int, pid: int, first_ns: int = 150, last_ns: int = 160, host: str = "node", **owner: str
) -> GpuHolder:
    return GpuHolder(host, f"GPU-{index:08d}", pid, first_ns, last_ns, **owner)


def grant(
    index: int,
    pod: str,
    namespace: str = "rl",
    host: str = "node",
    first_ns: int = 150,
    last_ns: int = 160,
) -> GpuGrant:
    return GpuGrant(host, f"GPU-{index:08d}", namespace, pod, first_ns, last_ns)


def join(
    processes: Iterable[ProcessSeen],
    holders: Iterable[GpuHolder] = (),
    windows: Sequence[RunWindow] = (LIVE,),
    grants: Iterable[GpuGrant] = (),
    gpus: Iterable[GpuIdentity] = NODE,
) -> GpuJoin:
    return join_gpus(processes, Evidence(holders, grants, gpus), windows)


def brief(held: Iterable[RunGpu]) -> list[tuple[str, int, str]]:
    return [(gpu.run_id, gpu.gpu_index, gpu.how) for gpu in held]


def test_declared_ids_win():
    declared = [process(1, "trainer", ("GPU-00000001",)), process(2, "controller")]
    joined = join(declared, [holder(2, 1)]).held
    assert [(gpu.gpu_uuid, gpu.role, gpu.how) for gpu in joined] == [
        ("GPU-00000001", "trainer", "gpu_ids")
    ]
    assert (joined[0].since_ns, joined[0].until_ns, joined[0].model) == (100, None, "NVIDIA H200")


def test_ids_declared_in_a_pod_are_found_on_its_node():
    declared = [process(1, "trainer", ("GPU-00000001",), host="trainer-0")]
    assert brief(join(declared).held) == [("run", 1, "gpu_ids")]
    # A GPU that two nodes report is on neither for certain.
    twin = GpuIdentity("twin", "GPU-00000001", 1)
    assert join(declared, gpus=[*NODE, twin]).held == ()


def test_host_and_pid():
    held = [holder(index, 10 + index) for index in range(2)]
    held.append(holder(3, 10, host="other"))
    joined = join([process(10, "rollout"), process(11, "trainer")], held).held
    assert [(gpu.gpu_index, gpu.role, gpu.how) for gpu in joined] == [
        (0, "rollout", "pid"),
        (1, "trainer", "pid"),
    ]


def test_two_roles_on_one_gpu():
    held = [holder(0, pid) for pid in (10, 11)]
    joined = join([process(10, "rollout"), process(11, "trainer")], held).held
    assert [gpu.role for gpu in joined] == ["hybrid"]


def test_a_process_of_that_number_in_another_container_is_another():
    seen = [process(10, slurm_job_id="1"), process(10, run_id="other", pod_uid=UID)]
    held = [holder(0, 10, slurm_job_id="2", pod_uid=UID)]
    assert brief(join(seen, held, [LIVE, OTHER]).held) == [("other", 0, "pid")]


def test_a_number_that_was_given_again_later_is_another_process():
    ended = RunWindow("run", 1, 100, 140)
    assert join([process(10)], [holder(0, 10)], [ended, OTHER]).held[0].how == "estimated"


def test_the_pod_that_the_kubelet_gave_gpus():
    seen = [
        process(10, "trainer", host="trainer-0", pod_name="trainer-0", pod_namespace="rl"),
        process(10, "rollout", host="rollout-0", pod_name="rollout-0", pod_namespace="rl"),
    ]
    grants = [grant(0, "trainer-0"), grant(1, "rollout-0"), grant(2, "trainer-0", "else")]
    joined = join(seen, grants=grants).held
    assert [(gpu.gpu_index, gpu.role, gpu.how, gpu.host) for gpu in joined] == [
        (0, "trainer", "pod", "node"),
        (1, "rollout", "pod", "node"),
    ]


def test_the_pod_whose_processes_hold_memory():
    seen = [process(10, host="trainer-0", pod_name="trainer-0", pod_uid=UID)]
    held = [holder(2, 4711, pod_uid=UID), holder(3, 4712, pod_uid="another")]
    assert brief(join(seen, held).held) == [("run", 2, "pod")]


def test_pods_of_one_name_in_two_clusters():
    away = [GpuIdentity("away", f"GPU-away-{index}", index) for index in range(2)]
    seen = [process(10, host="trainer-0", pod_name="trainer-0", pod_namespace="rl")]
    grants = [grant(0, "trainer-0"), GpuGrant("away", "GPU-away-1", "rl", "trainer-0", 150, 160)]
    gpus = [*NODE, *away]
    joined = join(seen, grants=grants, gpus=gpus)
    assert joined.held == ()
    assert {(note.run_id, note.host) for note in joined.notes} == {("run", "node"), ("run", "away")}
    assert "on away and on node" in joined.notes[0].text
    # What tells them apart: the node's name, or the uid.
    on_node = [replace(each, host="away") for each in seen]
    assert [gpu.host for gpu in join(on_node, grants=grants, gpus=gpus).held] == ["away"]
    with_uid = [replace(each, pod_uid=UID) for each in seen]
    held = [GpuHolder("away", "GPU-away-1", 7, 150, 160, pod_uid=UID)]
    by_uid = join(with_uid, held, grants=grants, gpus=gpus)
    assert [(gpu.host, gpu.how) for gpu in by_uid.held] == [("away", "pod")]
    assert by_uid.notes == ()
    # And a uid that is another one proves that it is not that pod.
    assert join(with_uid, [replace(held[0], pod_uid="b")], grants=grants[1:], gpus=gpus).held == ()


def test_two_runs_in_one_pod_are_told_apart_by_nothing():
    seen = [process(10, pod_name="pod"), process(11, run_id="other", pod_name="pod")]
    joined = join(seen, windows=[LIVE, OTHER], grants=[grant(0, "pod")])
    assert joined.held == ()
    assert [(note.run_id, note.text) for note in joined.notes] == [
        ("run", "pod rl/pod: other ran in it too"),
        ("other", "pod rl/pod: run ran in it too"),
    ]


def test_pods_that_share_a_gpu_both_hold_it():
    seen = [
        process(10, "trainer", ("GPU-00000000",), pod_name="a"),
        process(11, run_id="other", pod_name="b"),
    ]
    shared = [grant(0, "a"), grant(0, "b"), grant(1, "b")]
    assert brief(join(seen, windows=[LIVE, OTHER], grants=shared).held) == [
        ("other", 0, "pod"),
        ("other", 1, "pod"),
        ("run", 0, "gpu_ids"),
    ]
    # Without that, an id that a run declares is no other pod's.
    alone = [grant(0, "b"), grant(1, "b")]
    assert brief(join(seen, windows=[LIVE, OTHER], grants=alone).held) == [
        ("other", 1, "pod"),
        ("run", 0, "gpu_ids"),
    ]


def test_a_pod_without_gpus_is_not_estimated_to_hold_those_of_its_node():
    seen = [process(10, "controller", pod_name="head")]
    assert join(seen, grants=[grant(0, "somebody-else")]).held == ()
    assert len(join(seen).held) == 4
    bare = join([process(10)], grants=[grant(0, "somebody-else")]).held
    assert [gpu.gpu_index for gpu in bare] == [1, 2, 3]


def test_a_slurm_job():
    seen = [process(10, slurm_job_id="77"), process(20, run_id="other", slurm_job_id="78")]
    held = [
        holder(0, 110, slurm_job_id="77"),
        holder(1, 111, slurm_job_id="77"),
        holder(2, 112, slurm_job_id="78"),
        holder(3, 113, slurm_job_id="77", host="elsewhere"),
    ]
    gpus = [*NODE, GpuIdentity("elsewhere", "GPU-00000003", 3)]
    assert brief(join(seen, held, [LIVE, OTHER], gpus=gpus).held) == [
        ("other", 2, "slurm_job"),
        ("run", 0, "slurm_job"),
        ("run", 1, "slurm_job"),
    ]


def test_two_runs_in_one_slurm_job_are_not_both_given_its_gpus():
    seen = [process(10, slurm_job_id="77"), process(20, run_id="other", slurm_job_id="77")]
    joined = join(seen, [holder(0, 110, slurm_job_id="77")], [LIVE, OTHER])
    assert joined.held == ()
    assert {note.text for note in joined.notes} == {
        "Slurm job 77: other ran in it too",
        "Slurm job 77: run ran in it too",
    }
    # Their Ray jobs tell them apart.
    by_ray = [replace(seen[0], ray_job_id="01000000"), replace(seen[1], ray_job_id="02000000")]
    held = [
        holder(0, 110, slurm_job_id="77", ray_job_id="01000000"),
        holder(1, 111, slurm_job_id="77", ray_job_id="02000000"),
    ]
    joined = join(by_ray, held, [LIVE, OTHER])
    assert brief(joined.held) == [("other", 1, "ray_job"), ("run", 0, "ray_job")]
    assert joined.notes == ()


def test_the_agent_knows_that_a_run_is_in_the_job_too():
    # The other run says nothing of its job, but its process holds memory.
    seen = [process(10, slurm_job_id="77"), process(20, run_id="other")]
    held = [holder(0, 20, slurm_job_id="77"), holder(1, 110, slurm_job_id="77")]
    joined = join(seen, held, [LIVE, OTHER])
    assert brief(joined.held) == [("other", 0, "pid")]
    assert [note.run_id for note in joined.notes] == ["run"]


def test_ray_jobs_of_one_number_on_two_nodes_and_at_two_times():
    away = [GpuIdentity("away", "GPU-away", 0)]
    seen = [
        process(10, ray_job_id="01000000"),
        process(11, run_id="other", host="away", ray_job_id="01000000"),
        process(12, run_id="later", ray_job_id="01000000"),
    ]
    held = [
        holder(0, 110, 110, 190, ray_job_id="01000000"),
        GpuHolder("away", "GPU-away", 111, 160, 170, ray_job_id="01000000"),
        holder(1, 112, 310, 390, ray_job_id="01000000"),
    ]
    windows = [RunWindow("run", 1, 100, 200), OTHER, RunWindow("later", 1, 300, None)]
    joined = join(seen, held, windows, gpus=[*NODE, *away]).held
    assert [(gpu.run_id, gpu.host, gpu.gpu_index, gpu.how) for gpu in joined] == [
        ("later", "node", 1, "ray_job"),
        ("other", "away", 0, "ray_job"),
        ("run", "node", 0, "ray_job"),
    ]


def test_a_gpu_that_another_run_declares_is_not_the_jobs():
    seen = [process(10, slurm_job_id="77"), process(20, "trainer", ("GPU-00000000",), "other")]
    held = [holder(0, 110, slurm_job_id="77"), holder(1, 111, slurm_job_id="77")]
    assert brief(join(seen, held, [LIVE, OTHER]).held) == [
        ("other", 0, "gpu_ids"),
        ("run", 1, "slurm_job"),
    ]


def test_only_run_on_the_node_is_estimated():
    joined = join([process(1, "controller")]).held
    assert [(gpu.gpu_index, gpu.role, gpu.how) for gpu in joined] == [
        (index, "", "estimated") for index in range(4)
    ]


def test_of_a_divided_gpu_only_its_parts_are_estimated():
    parts = [
        GpuIdentity("node", f"MIG-{slot}", 0, "H200 MIG 1g.18gb", "GPU-00000000") for slot in (0, 1)
    ]
    joined = join([process(1)], gpus=[*NODE[:2], *parts]).held
    assert [gpu.gpu_uuid for gpu in joined] == ["MIG-0", "MIG-1", "GPU-00000001"]


def test_titles_hint_at_roles_where_nobody_names_one():
    in_job: Any = {"ray_job_id": "01000000"}
    holders = [
        holder(0, 10, title="ray::WorkerDict.actor_rollout_update_actor", **in_job),
        holder(1, 11, title="ray::vLLMHttpServer", **in_job),
        holder(2, 12, title="ray::CriticWorker", **in_job),
        holder(2, 13, title="ray::RewardModelWorker", **in_job),
        holder(3, 14, title="python", **in_job),
    ]
    controller = process(1, "controller", ray_job_id="01000000")
    assert [gpu.role for gpu in join([controller], holders).held] == [
        "hybrid", "rollout", "hybrid", "",
    ]  # fmt: skip


def test_what_processes_say_of_themselves_counts_before_their_titles():
    holders = [holder(0, 10, title="ray::vLLMHttpServer")]
    assert join([process(10, "trainer")], holders).held[0].role == "trainer"


def test_two_live_runs_on_a_node_are_not_estimated():
    seen = [process(1, "controller"), process(2, "controller", run_id="other")]
    assert join(seen, windows=[LIVE, OTHER]).held == ()


def test_a_run_that_holds_gpus_of_a_node_from_a_pod_is_alive_on_it():
    seen = [process(1), process(1, run_id="other", host="pod", pod_name="pod")]
    joined = join(seen, windows=[LIVE, OTHER], grants=[grant(0, "pod")])
    assert brief(joined.held) == [("other", 0, "pod")]


def test_runs_one_after_the_other_are_estimated():
    earlier = RunWindow("earlier", 1, 10, 90)
    seen = [process(1, "trainer"), process(2, "trainer", run_id="earlier")]
    joined = join(seen, windows=[LIVE, earlier]).held
    assert {gpu.run_id for gpu in joined} == {"run", "earlier"}
    assert len(joined) == 8


def test_attempts_of_one_run_do_not_block_each_other():
    resumed = RunWindow("run", 2, 300, None)
    seen = [process(1, "trainer"), process(2, "trainer", attempt=2)]
    joined = join(seen, windows=[RunWindow("run", 1, 100, 310), resumed]).held
    assert {gpu.attempt for gpu in joined} == {1, 2}


def test_gpus_of_nodes_without_processes_are_nobodys():
    away = GpuIdentity("away", "GPU-99999999", 0)
    joined = join([process(1, "trainer")], gpus=[*NODE, away]).held
    assert all(gpu.host == "node" for gpu in joined)


def test_declared_but_unknown_ids_are_not_estimated():
    assert join([process(1, "trainer", ("GPU-abcdefgh",))]).held == ()


def test_devices_that_no_node_reports_are_left_out():
    mig = GpuGrant("node", "MIG-1", "rl", "pod", 150, 160)
    assert join([process(1, host="pod", pod_name="pod")], grants=[mig]).held == ()


RANKS = ("gpu_ids", "pid", "pod", "slurm_job", "ray_job", "estimated")
HOSTS = ("node-a", "node-b")
GPUS = [GpuIdentity(host, f"GPU-{host}-{i}", i) for host in HOSTS for i in range(3)]
uuids = st.sampled_from([gpu.gpu_uuid for gpu in GPUS])
maybe = st.none() | st.sampled_from(["1", "2"])
run_ids = st.sampled_from(["run-1", "run-2", "run-3"])


def make_window(run_id: str, since_ns: int, length_ns: int | None) -> RunWindow:
    return RunWindow(run_id, 1, since_ns, None if length_ns is None else since_ns + length_ns)


windows_of_runs = st.lists(
    st.builds(
        make_window,
        run_ids,
        st.integers(0, 100),
        st.none() | st.integers(1, 60),
    ),
    unique_by=lambda window: window.run_id,
    max_size=3,
)
seen_processes = st.lists(
    st.builds(
        ProcessSeen,
        run_id=run_ids,
        attempt=st.just(1),
        host=st.sampled_from([*HOSTS, "in-a-pod"]),
        pid=st.integers(1, 4),
        role=st.sampled_from(["controller", "trainer", "rollout"]),
        seen_ns=st.just(50),
        gpu_ids=st.just(()) | st.tuples(uuids),
        pod_namespace=st.sampled_from([None, "rl"]),
        pod_name=maybe,
        pod_uid=maybe,
        slurm_job_id=maybe,
        ray_job_id=maybe,
    ),
    max_size=6,
)


Time = tuple[int, int]


def make_holder(
    gpu: GpuIdentity, pid: int, time: Time, owner: tuple[str | None, str | None, str | None]
) -> GpuHolder:
    return GpuHolder(gpu.host, gpu.gpu_uuid, pid, time[0], sum(time), *owner)


def make_grant(gpu: GpuIdentity, pod: str, time: Time) -> GpuGrant:
    return GpuGrant(gpu.host, gpu.gpu_uuid, "rl", pod, time[0], sum(time))


# A beginning and a length.
times = st.tuples(st.integers(0, 150), st.integers(0, 40))
seen_holders = st.lists(
    st.builds(
        make_holder,
        st.sampled_from(GPUS),
        st.integers(1, 6),
        times,
        st.tuples(maybe, maybe, maybe),
    ),
    max_size=8,
)
seen_grants = st.lists(
    st.builds(make_grant, st.sampled_from(GPUS), st.sampled_from(["1", "2"]), times), max_size=5
)


@given(seen_processes, seen_holders, seen_grants, windows_of_runs)
def test_what_holds_whatever_is_seen(
    processes: list[ProcessSeen],
    holders: list[GpuHolder],
    grants: list[GpuGrant],
    windows: list[RunWindow],
):
    joined = join(processes, holders, windows, grants, GPUS)
    by_window = {window.run_id: window for window in windows}
    # One rule for each run and node, and each GPU once.
    rule: dict[tuple[str, str], str] = {}
    for gpu in joined.held:
        assert rule.setdefault((gpu.run_id, gpu.host), gpu.how) == gpu.how
    assert len({(gpu.run_id, gpu.gpu_uuid) for gpu in joined.held}) == len(joined.held)
    # Whoever shares a GPU with another run has a proof of its own.
    for one in joined.held:
        sharers = [
            other
            for other in joined.held
            if other.gpu_uuid == one.gpu_uuid
            and other.run_id != one.run_id
            and by_window[one.run_id].overlaps(by_window[other.run_id])
        ]
        for other in sharers:
            assert "estimated" not in (one.how, other.how)
            if one.how in ("slurm_job", "ray_job"):
                assert other.how in ("slurm_job", "ray_job")
                assert (one.how, owner_of(one, processes)) != (
                    other.how,
                    owner_of(other, processes),
                )
    # What was not joined by a rule is joined by a later one or not at all, and said.
    for note in joined.notes:
        assert (note.run_id, note.host) not in rule
    # The order in which things are seen decides nothing.
    again = join(processes[::-1], holders[::-1], windows[::-1], grants[::-1], GPUS)
    assert again.held == joined.held
    assert set(again.notes) == set(joined.notes)


def owner_of(held: RunGpu, processes: Iterable[ProcessSeen]) -> frozenset[str | None]:
    """The jobs of a run on a node, as its processes say."""
    return frozenset(
        getattr(process, f"{held.how}_id")
        for process in processes
        if process.run_id == held.run_id and process.host == held.host
    )


@given(seen_processes, seen_holders, seen_grants, windows_of_runs)
def test_a_higher_source_wins(
    processes: list[ProcessSeen],
    holders: list[GpuHolder],
    grants: list[GpuGrant],
    windows: list[RunWindow],
):
    rule = {
        (gpu.run_id, gpu.host): gpu.how
        for gpu in join(processes, holders, windows, grants, GPUS).held
    }
    live = {window.run_id for window in windows}
    known = {gpu.gpu_uuid: gpu.host for gpu in GPUS}
    for process in processes:
        if process.run_id in live:
            for gpu_id in process.gpu_ids:
                if process.host in (known[gpu_id], "in-a-pod"):
                    assert rule[process.run_id, known[gpu_id]] == "gpu_ids"
    # Less evidence of a lower rank changes nothing of a higher one.
    without = join(processes, holders, windows, (), GPUS).held
    direct = {key: how for key, how in rule.items() if how in RANKS[:2]}
    assert direct.items() <= {(gpu.run_id, gpu.host): gpu.how for gpu in without}.items()
