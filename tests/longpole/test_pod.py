from pathlib import Path

import pytest

from longpole.pod import find_pod_uid, read_pod

UID = "0f6a2b1c-1111-2222-3333-444455556666"
OTHER = "1f6a2b1c-1111-2222-3333-444455556666"
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_outside_of_kubernetes_nothing_is_said(tmp_path: Path) -> None:
    assert read_pod({"HOSTNAME": "box", "POD_NAME": "x"}, tmp_path) == {}


def test_what_the_manifest_hands_over_wins(tmp_path: Path) -> None:
    write(tmp_path, "var/run/secrets/kubernetes.io/serviceaccount/namespace", "default")
    given = {"POD_NAME": "trainer-0", "POD_NAMESPACE": "rl", "POD_UID": UID, "HOSTNAME": "box"}
    assert read_pod({**IN_CLUSTER, **given}, tmp_path) == {
        "k8s.pod.name": "trainer-0",
        "k8s.namespace.name": "rl",
        "k8s.pod.uid": UID,
    }


def test_a_plain_pod_is_found_by_its_host_name_and_its_files(tmp_path: Path) -> None:
    write(tmp_path, "var/run/secrets/kubernetes.io/serviceaccount/namespace", "rl\n")
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    mount = f"612 603 8:1 /var/lib/kubelet/pods/{UID}/etc-hosts /etc/hosts rw - ext4 /dev/sda1 rw\n"
    write(tmp_path, "proc/self/mountinfo", mount)
    assert read_pod({**IN_CLUSTER, "HOSTNAME": "trainer-0"}, tmp_path) == {
        "k8s.pod.name": "trainer-0",
        "k8s.namespace.name": "rl",
        "k8s.pod.uid": UID,
    }


def test_what_cannot_be_found_is_absent(tmp_path: Path) -> None:
    assert read_pod(IN_CLUSTER, tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "uid"),
    [
        (f"4:memory:/kubepods/burstable/pod{UID}/{'ab' * 32}\n5:cpu:/kubepods/pod{UID}\n", UID),
        (
            (
                "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
                f"kubelet-kubepods-besteffort-pod{UID.replace('-', '_')}.slice/cri-containerd-ab"
            ),
            UID,
        ),
        (f"/kubepods/pod{UID}/x\n/kubepods/pod{OTHER}/x\n", None),
        (f"0::/user.slice/{UID}\n", None),
        (f"/kubepods/pod{UID}9/x\n", None),
        ("", None),
    ],
)
def test_the_uid_in_paths(text: str, uid: str | None) -> None:
    assert find_pod_uid(text) == uid
