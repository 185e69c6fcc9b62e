"""From what SDK and agent send to which run holds which GPU."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole.declaration import Declaration
from longpole.identity import build_resource
from longpole_agent.encode import MetricsEncoder
from longpole_agent.sources.gpu import make_point, make_process_point, name_gpu
from longpole_agent.sources.pod_resources import PodResourcesSource
from longpole_agent.sources.source import Attributes, Point
from longpole_server.model.gpu import JoinedBy, RunGpu
from longpole_server.service.gpu_joining import amend
from support import otlp_builders as otlp
from support.kubelet import Kubelet
from support.otlp_normalizing import Feed
from support.server_runs import BEGIN_NS, S
from support.server_service import ServiceBench

T0_S = (otlp.T0_NS - BEGIN_NS) / S


class Cluster:
    """Trainers and agents that send to a server, each at a second of the tests' time."""

    def __init__(self, bench: ServiceBench) -> None:
        self._bench = bench
        self._feed = Feed()

    def train(
        self, run_id: str, at_s: float, environ: Mapping[str, str], role: str = "trainer"
    ) -> None:
        """A trainer's process finishes a step."""
        declaration = Declaration(run_id=run_id, role=role)
        resource = build_resource(
            declaration, environ, pid=10, process_start_ns=otlp.at(0), root=Path("/nowhere")
        )
        spans = [otlp.loop(round(at_s), at_s - 1, at_s)]
        self._send("traces", otlp.traces((otlp.resource(resource), spans)), at_s)

    def report(self, host: str, at_s: float, points: Sequence[Point] = ()) -> None:
        """An agent reports its two GPUs, and what else it has seen."""
        gpus = [
            make_point("utilization_ratio", 0.5, otlp.at(at_s), gpu_of(host, index))
            for index in range(2)
        ]
        body = MetricsEncoder(host, 1).encode([*gpus, *points])
        self._send("metrics", body, at_s)

    def held(self, run_id: str, at_s: float) -> list[tuple[str, str]]:
        """GPUs and how they were joined, after joining them at a time."""
        self._bench.clock.seconds = T0_S + at_s
        self._bench.joiner.join()
        return [(gpu.gpu_uuid, gpu.how) for gpu in self._bench.reader.list_run_gpus(run_id)]

    def _send(self, signal: otlp.Signal, body: bytes, at_s: float) -> None:
        self._bench.write(self._feed.requests(signal, body, at_s))


def gpu_of(host: str, index: int) -> Attributes:
    return name_gpu(f"GPU-{host}-{index}", index, "H200")


def memory(host: str, index: int, pid: int, at_s: float, **owner: str) -> Point:
    named = tuple((key.replace("__", "."), value) for key, value in owner.items())
    return make_process_point(pid, 1 << 30, otlp.at(at_s), gpu_of(host, index), named)


@pytest.fixture
def cluster(bench: ServiceBench) -> Cluster:
    return Cluster(bench)


@pytest.fixture
def kubelet() -> Iterator[tuple[Kubelet, PodResourcesSource]]:
    with TemporaryDirectory(prefix="longpole") as directory:
        path = Path(directory) / "kubelet.sock"
        kubelet, source = Kubelet(path), PodResourcesSource(path, timeout_s=60.0)
        yield kubelet, source
        source.close()
        kubelet.close()


def test_a_pods_gpus_from_the_kubelet_to_the_run(
    cluster: Cluster, kubelet: tuple[Kubelet, PodResourcesSource], run_id: str
) -> None:
    server, source = kubelet
    server.pods = {
        "rl/trainer-0": {"main": {"nvidia.com/gpu": ["GPU-kube-1"]}},
        "rl/other": {"main": {"nvidia.com/gpu": ["GPU-kube-0"]}},
    }
    environ = {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "HOSTNAME": "trainer-0",
        "LONGPOLE_HOST_NAME": "trainer-0",
        "POD_NAMESPACE": "rl",
    }
    cluster.train(run_id, 5, environ)
    cluster.report("kube", 6, source.sample(otlp.at(6)))
    assert cluster.held(run_id, 7) == [("GPU-kube-1", "pod")]


def test_a_slurm_jobs_gpus(cluster: Cluster, run_id: str) -> None:
    environ = {"LONGPOLE_HOST_NAME": "slurm", "SLURM_JOB_ID": "77"}
    cluster.train(run_id, 5, environ)
    points = [
        memory("slurm", 0, 4001, 6, slurm__job__id="77"),
        memory("slurm", 1, 4002, 6, slurm__job__id="78"),
    ]
    cluster.report("slurm", 6, points)
    assert cluster.held(run_id, 7) == [("GPU-slurm-0", "slurm_job")]


def test_better_evidence_takes_back_an_estimate(cluster: Cluster, run_id: str) -> None:
    environ = {"LONGPOLE_HOST_NAME": "late", "RAY_JOB_ID": "01000000"}
    cluster.train(run_id, 5, environ)
    cluster.report("late", 6)
    assert [how for _, how in cluster.held(run_id, 7)] == ["estimated", "estimated"]
    cluster.report("late", 16, [memory("late", 1, 4001, 16, ray__job__id="01000000")])
    assert cluster.held(run_id, 17) == [("GPU-late-1", "ray_job")]


def test_a_second_run_in_the_job_ends_what_the_first_held(
    cluster: Cluster, bench: ServiceBench, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"LONGPOLE_HOST_NAME": "twice", "SLURM_JOB_ID": "5"}
    cluster.train(run_id, 5, environ)
    cluster.report("twice", 6, [memory("twice", 0, 4001, 6, slurm__job__id="5")])
    assert cluster.held(run_id, 7) == [("GPU-twice-0", "slurm_job")]
    cluster.train(run_id + "-2", 9, environ)
    with caplog.at_level(logging.WARNING):
        assert cluster.held(run_id + "-2", 10) == []
        assert cluster.held(run_id + "-2", 14) == []
    (row,) = bench.reader.list_run_gpus(run_id)
    assert row.until_ns == otlp.at(10)
    note = f"GPUs of twice are not joined by Slurm job 5: {run_id}-2 ran in it too."
    assert bench.joiner.list_notes(run_id) == (note,)
    assert note in [told.summary for told in bench.service.get_run(run_id).notes]
    assert [note in message for message in caplog.messages].count(True) == 1


def test_a_restarted_server_takes_back_what_it_said_before(
    cluster: Cluster, bench: ServiceBench, run_id: str
) -> None:
    cluster.train(run_id, 5, {"LONGPOLE_HOST_NAME": "again"})
    cluster.report("again", 6)
    assert len(cluster.held(run_id, 7)) == 2
    cluster.report("again", 8, [memory("again", 0, 10, 8)])
    assert Cluster(bench.reopened()).held(run_id, 9) == [("GPU-again-0", "pid")]


def test_an_agent_that_went_silent_takes_nothing_back(
    cluster: Cluster, bench: ServiceBench, run_id: str
) -> None:
    environ = {"LONGPOLE_HOST_NAME": "silent"}
    cluster.train(run_id, 5, environ)
    cluster.report("silent", 6, [memory("silent", 0, 10, 6)])
    assert cluster.held(run_id, 7) == [("GPU-silent-0", "pid")]
    cluster.train(run_id, 700, environ)
    cluster.report("another", 700)
    assert cluster.held(run_id, 701) == [("GPU-silent-0", "pid")]
    assert bench.reader.list_run_gpus(run_id)[0].until_ns is None


def make_row(uuid: str, host: str, since_ns: int, length_ns: int | None, how: JoinedBy) -> RunGpu:
    until_ns = None if length_ns is None else since_ns + length_ns
    return RunGpu("run", 1, host, uuid, 0, "", since_ns, until_ns, how)


HOWS: tuple[JoinedBy, ...] = ("pid", "estimated")
rows = st.builds(
    make_row,
    st.sampled_from("abc"),
    st.sampled_from(["n1", "n2"]),
    st.integers(0, 20),
    st.none() | st.integers(-1, 20),
    st.sampled_from(HOWS),
)


def unique(found: list[RunGpu]) -> list[RunGpu]:
    return list({(row.gpu_uuid, row.since_ns): row for row in found}.values())


@given(st.lists(rows, max_size=6).map(unique), st.lists(rows, max_size=4).map(unique))
def test_amended_rows_say_what_is_held_and_nothing_else_for_ever(
    before: list[RunGpu], held: list[RunGpu]
) -> None:
    amended = amend(before, held, now_ns=10)
    assert amended[: len(held)] == held
    table = {(row.gpu_uuid, row.since_ns): row for row in (*before, *amended)}
    keys = {(row.gpu_uuid, row.since_ns) for row in held}
    for key, row in table.items():
        if key not in keys:
            assert row.until_ns is not None
            assert row.until_ns <= max(10, row.since_ns)
    # Once written, the same answer changes nothing.
    again = amend(list(table.values()), held, now_ns=99)
    assert all(table[row.gpu_uuid, row.since_ns] == row for row in again)
