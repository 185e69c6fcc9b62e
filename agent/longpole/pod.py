"""Which Kubernetes pod a process runs in, from what the pod itself can see."""

import re
from collections.abc import Mapping
from pathlib import Path

from longpole.conventions import attributes as names

_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
_NAMESPACE_FILE = "var/run/secrets/kubernetes.io/serviceaccount/namespace"
# The uid stands in the path of a control group (systemd turns `-` into `_`), and in the paths that
# the kubelet mounts into a pod, e.g. its `etc-hosts`.
_UID_FILES = ("proc/self/cgroup", "proc/self/mountinfo")
_UID = re.compile(
    r"(?:kubepods\S*?[/-]pod|/pods/)"
    r"([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?![0-9a-f])"
)


def read_pod(environ: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the pod's name, namespace and uid as attributes; nothing outside of Kubernetes.

    `POD_NAME`, `POD_NAMESPACE` and `POD_UID` are what manifests call these fields when they hand
    them to a container. Without them the host name is the pod's name.

    Args:
        environ: The process's environment.
        root: Of the file system.
    """
    if not environ.get(_IN_CLUSTER):
        return {}
    found = {
        names.K8S_POD_NAME: environ.get("POD_NAME") or environ.get("HOSTNAME"),
        names.K8S_NAMESPACE_NAME: environ.get("POD_NAMESPACE") or _read(root / _NAMESPACE_FILE),
        names.K8S_POD_UID: environ.get("POD_UID") or _find_own_uid(root),
    }
    return {name: value for name, value in found.items() if value}


def find_pod_uid(text: str) -> str | None:
    """Return the uid of the pod that paths of control groups or mounts lie in.

    None when there is none, and when there are several: then they are not a pod's own.
    """
    uids = {match.replace("_", "-") for match in _UID.findall(text)}
    return uids.pop() if len(uids) == 1 else None


def _find_own_uid(root: Path) -> str | None:
    for name in _UID_FILES:
        uid = find_pod_uid(_read(root / name))
        if uid is not None:
            return uid
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
