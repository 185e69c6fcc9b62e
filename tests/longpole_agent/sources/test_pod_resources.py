import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longpole_agent.sources.pod_resources import (
    Allocation,
    PodResourcesSource,
    parse_allocations,
)
from support.kubelet import Kubelet, Pods, make_answer

SECOND = 1_000_000_000
TRAINER = {"rl/trainer-0": {"main": {"nvidia.com/gpu": ["GPU-a", "GPU-b"]}}}


@pytest.fixture
def path() -> Iterator[Path]:
    # Paths of unix sockets are bounded to 107 bytes.
    with TemporaryDirectory(prefix="longpole") as directory:
        yield Path(directory) / "kubelet.sock"


@pytest.fixture
def kubelet(path: Path) -> Iterator[Kubelet]:
    kubelet = Kubelet(path)
    yield kubelet
    kubelet.close()


@pytest.fixture
def source(path: Path) -> Iterator[PodResourcesSource]:
    source = PodResourcesSource(path, timeout_s=60.0)
    yield source
    source.close()


def test_each_gpu_names_its_pod(kubelet: Kubelet, source: PodResourcesSource) -> None:
    kubelet.pods = TRAINER
    points = source.sample(7 * SECOND)
    assert [(point.metric, point.ts_ns, point.value) for point in points] == [
        ("hw.gpu.allocation", 7 * SECOND, 1)
    ] * 2
    assert [dict(point.attributes) for point in points] == [
        {
            "hw.id": uuid,
            "k8s.namespace.name": "rl",
            "k8s.pod.name": "trainer-0",
            "k8s.container.name": "main",
        }
        for uuid in ("GPU-a", "GPU-b")
    ]


def test_mig_devices_and_shared_gpus_count_other_resources_do_not() -> None:
    pods: Pods = {
        "rl/one": {
            "main": {
                "nvidia.com/mig-1g.10gb": ["MIG-1"],
                "nvidia.com/gpu.shared": ["GPU-a::0", "GPU-a::3"],
                "rdma/hca": ["mlx5_0"],
                "nvidia.com/gpu-driver": ["GPU-x"],
            },
            "sidecar": {},
        },
        "rl/two": {"main": {"nvidia.com/gpu": ["GPU-a::1"]}},
    }
    assert list(parse_allocations(make_answer(pods).SerializeToString())) == [
        Allocation("MIG-1", "rl", "one", "main"),
        Allocation("GPU-a", "rl", "one", "main"),
        Allocation("GPU-a", "rl", "two", "main"),
    ]


names = st.text("abc-0", min_size=1, max_size=6)
uuids = st.lists(names.map("GPU-{}".format), max_size=4, unique=True)


@given(
    st.dictionaries(
        st.tuples(names, names).map("/".join), st.dictionaries(names, uuids, max_size=3), max_size=4
    )
)
def test_any_pods_come_out_as_they_are(pods: dict[str, dict[str, list[str]]]) -> None:
    answer = make_answer(
        {
            pod: {name: {"nvidia.com/gpu": uuids} for name, uuids in containers.items()}
            for pod, containers in pods.items()
        }
    )
    assert list(parse_allocations(answer.SerializeToString())) == [
        Allocation(uuid, pod.partition("/")[0], pod.partition("/")[2], container)
        for pod, containers in pods.items()
        for container, uuids in containers.items()
        for uuid in uuids
    ]


def test_the_kubelet_is_asked_every_15_s(kubelet: Kubelet, source: PodResourcesSource) -> None:
    kubelet.pods = TRAINER
    counts = [len(source.sample(second * SECOND)) for second in range(31)]
    assert [second for second, count in enumerate(counts) if count] == [0, 15, 30]
    assert kubelet.num_asked == 3


def test_a_node_without_kubernetes_says_nothing(
    source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert list(source.sample(0)) == []
    assert caplog.messages == []


def test_a_socket_that_appears_later_is_found(
    path: Path, source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source.sample(0)
    kubelet = Kubelet(path)
    kubelet.pods = TRAINER
    try:
        assert len(source.sample(15 * SECOND)) == 2
        assert len(source.sample(30 * SECOND)) == 2
    finally:
        kubelet.close()
    assert caplog.messages == ["the kubelet tells which pod holds which GPU"]


def test_a_refusal_is_said_once_and_asked_for_more_and_more_rarely(
    kubelet: Kubelet, source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.refusal = grpc.StatusCode.PERMISSION_DENIED
    asked: list[int] = []
    for second in range(1000):
        before = kubelet.num_asked
        assert list(source.sample(second * SECOND)) == []
        if kubelet.num_asked > before:
            asked.append(second)
    assert asked == [0, 15, 45, 105, 225, 465, 765]
    (message,) = caplog.messages
    assert "PERMISSION_DENIED" in message
    kubelet.refusal = None
    kubelet.pods = TRAINER
    assert len(source.sample(1065 * SECOND)) == 2
    kubelet.refusal = grpc.StatusCode.UNAVAILABLE
    assert list(source.sample(1080 * SECOND)) == []
    assert list(source.sample(1094 * SECOND)) == []
    kubelet.refusal = None
    assert len(source.sample(1095 * SECOND)) == 2


def test_an_old_kubelet_is_named(
    kubelet: Kubelet, source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.refusal = grpc.StatusCode.UNIMPLEMENTED
    source.sample(0)
    assert "Kubernetes 1.20" in caplog.messages[0]


def test_a_kubelet_that_hangs_is_left_alone_after_the_timeout(
    kubelet: Kubelet, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.may_answer.clear()
    source = PodResourcesSource(path, timeout_s=0.05)
    assert list(source.sample(0)) == []
    assert "DEADLINE_EXCEEDED" in caplog.messages[0]
    source.close()


def test_a_socket_nobody_listens_on(
    path: Path, source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    assert list(source.sample(0)) == []
    assert "UNAVAILABLE" in caplog.messages[0]


def test_ids_that_are_no_uuids_are_left_out_and_said(
    kubelet: Kubelet, source: PodResourcesSource, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.pods = {"rl/a": {"main": {"nvidia.com/gpu": ["nvidia0", "GPU-a"]}}}
    assert len(source.sample(0)) == 1
    assert len(source.sample(15 * SECOND)) == 1
    (message,) = caplog.messages
    assert "'nvidia0'" in message


def test_an_unreadable_directory_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # A file that loops refuses whoever asks, the superuser too.
    looping = tmp_path / "loop"
    looping.symlink_to(looping)
    source = PodResourcesSource(looping)
    assert list(source.sample(0)) == []
    assert "joined to runs without pods" in caplog.messages[0]
