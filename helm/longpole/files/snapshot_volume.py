"""Snapshots the server's volume and deletes the oldest snapshots; a CronJob runs it in the cluster.

Only snapshots that are ready count: while new ones fail, the old ones stay.
"""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_API = "/apis/snapshot.storage.k8s.io/v1"
_LABEL = "longpole.io/snapshots-of"
_READY_S = 900.0
_LOOK_S = 5.0
Document = dict[str, Any]
# Takes method, path and document of a request to the Kubernetes API, and returns what it answers.
Ask = Callable[[str, str, Document | None], Document]


def run(
    environ: Mapping[str, str],
    ask: Ask,
    now_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Make one snapshot of `CLAIM`, keep `KEEP` ready ones; return the exit status."""
    claim, keep = environ["CLAIM"], int(environ["KEEP"])
    place = f"{_API}/namespaces/{environ['NAMESPACE']}/volumesnapshots"
    name = f"{claim[:40].rstrip('-.')}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now_s))}"
    ask("POST", place, _describe(name, claim, environ.get("CLASS", "")))
    if not _is_ready_in_time(ask, f"{place}/{name}", sleep):
        sys.stdout.write(
            f"snapshot {name} is not ready after {_READY_S:.0f} s: kubectl describe it\n"
        )
        return 1
    found = ask("GET", f"{place}?labelSelector={_LABEL}%3D{claim[:63]}", None)["items"]
    ready = sorted(
        (one["metadata"] for one in found if one.get("status", {}).get("readyToUse")),
        key=lambda metadata: (metadata["creationTimestamp"], metadata["name"]),
    )
    for metadata in ready[: max(0, len(ready) - keep)]:
        ask("DELETE", f"{place}/{metadata['name']}", None)
        sys.stdout.write(f"deleted {metadata['name']}\n")
    sys.stdout.write(f"made {name}\n")
    return 0


def _describe(name: str, claim: str, class_name: str) -> Document:
    spec: Document = {"source": {"persistentVolumeClaimName": claim}}
    if class_name:
        spec["volumeSnapshotClassName"] = class_name
    return {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "labels": {_LABEL: claim[:63]}},
        "spec": spec,
    }


def _is_ready_in_time(ask: Ask, path: str, sleep: Callable[[float], None]) -> bool:
    for _ in range(int(_READY_S / _LOOK_S)):
        status: Document = ask("GET", path, None).get("status") or {}
        if status.get("readyToUse"):
            return True
        sleep(_LOOK_S)
    return False


def ask_api(method: str, path: str, document: Document | None, account: Path = ACCOUNT) -> Document:
    """Ask the Kubernetes API with the pod's own account."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    address = f"https://{host}:{os.environ.get('KUBERNETES_SERVICE_PORT', '443')}{path}"
    token = (account / "token").read_text().strip()
    request = urllib.request.Request(
        address,
        None if document is None else json.dumps(document).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        method=method,
    )
    context = ssl.create_default_context(cafile=str(account / "ca.crt"))
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:  # noqa: S310
        return json.load(answer)


if __name__ == "__main__":
    try:
        sys.exit(run(os.environ, ask_api, time.time()))
    except urllib.error.HTTPError as error:
        sys.exit(
            f"the Kubernetes API answered {error.code}: {error.read(2000).decode(errors='replace')}"
        )
    except OSError as error:
        sys.exit(f"the Kubernetes API does not answer: {error}")
