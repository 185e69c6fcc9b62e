from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from longpole_agent.discovery.annotated_pods import AnnotatedPods, KubernetesError, find_pods
from longpole_agent.targets import Target


def make_pod(ip: str = "10.2.0.9", phase: str = "Running", **annotations: str) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_io", ".io"): v for key, v in annotations.items()}
    return {
        "metadata": {"name": "vllm-0", "annotations": named},
        "spec": {"containers": [{"ports": [{"containerPort": 8000}, {"containerPort": 53,
                                                                     "protocol": "UDP"}]}]},
        "status": {"podIP": ip, "phase": phase},
    }  # fmt: skip


def list_pages(*pods: Mapping[str, Any]) -> list[Target]:
    asked: list[str] = []

    def ask(path: str) -> Mapping[str, Any]:
        asked.append(path)
        return {"items": list(pods)}

    found = AnnotatedPods("gpu node/7", ask)()
    assert asked == ["/api/v1/pods?fieldSelector=spec.nodeName%3Dgpu%20node/7"]
    return found


def test_an_annotated_pod_has_a_page() -> None:
    pod = make_pod(prometheus_io__scrape="true", prometheus_io__port="9400")
    (target,) = list_pages(pod)
    assert (target.address, target.job) == ("10.2.0.9:9400", "kubernetes-pods")
    assert target.labels == (("replica", "vllm-0"),)


def test_without_a_port_those_of_its_containers_count_and_it_may_name_its_run() -> None:
    pod = make_pod(ip="fd00::9", prometheus_io__scrape="True", longpole_io__run="proj/ppo")
    (target,) = list_pages(pod)
    assert target.address == "[fd00::9]:8000"
    assert target.label("run") == "proj/ppo"


@pytest.mark.parametrize(
    "pod",
    [
        make_pod(),
        make_pod(prometheus_io__scrape="false"),
        make_pod(prometheus_io__scrape="true", prometheus_io__path="/admin/delete"),
        make_pod(prometheus_io__scrape="true", prometheus_io__scheme="https"),
        make_pod(prometheus_io__scrape="true", prometheus_io__port="http"),
        make_pod(prometheus_io__scrape="true", prometheus_io__port="70000"),
        make_pod(phase="Pending", prometheus_io__scrape="true"),
        make_pod(ip="169.254.169.254", prometheus_io__scrape="true"),
        make_pod(ip="127.0.0.1", prometheus_io__scrape="true"),
        make_pod(ip="", prometheus_io__scrape="true"),
        {},
    ],
)
def test_others_have_none(pod: Mapping[str, Any]) -> None:
    assert list_pages(pod) == []


def test_an_api_server_that_refuses_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(path: str) -> Mapping[str, Any]:
        raise KubernetesError("the agent's service account may not list pods (status 403)")

    pods = AnnotatedPods("node", refuse)
    assert pods() == pods() == []
    assert len(caplog.records) == 1


def test_outside_of_kubernetes_nobody_is_asked(tmp_path: Path) -> None:
    inside = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "NODE_NAME": "node"}
    assert find_pods({}, tmp_path) is None
    assert find_pods(inside, tmp_path) is None
    (tmp_path / "token").write_text("secret")
    assert find_pods({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path) is None
    assert find_pods(inside, tmp_path) is not None
