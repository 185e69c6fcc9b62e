"""Pods of this node that say by annotation that they have a Prometheus page.

`prometheus.io/scrape: "true"`, `prometheus.io/port` and `prometheus.io/path` as scrapers have
always read them, and `longpole.io/run` for the run they serve. The API server is asked with the
agent's service account, which needs to list pods; `NODE_NAME` says which node is meant.
"""

import http.client
import ipaddress
import json
import logging
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from longpole.page_addresses import may_hold_page
from longpole_agent.targets import Target

_log = logging.getLogger(__name__)

JOB = "kubernetes-pods"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_PREFIX = "prometheus.io/"
_RUN = "longpole.io/run"
_PATH = "/metrics"
_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 16 << 20
# Answers the path of a question to the API server with its document.
AskApi = Callable[[str], Mapping[str, Any]]


class KubernetesError(Exception):
    """The API server gave no list of pods; the text says why."""


class AnnotatedPods:
    """Lists the annotated pods of a node.

    Args:
        node: Its name.
        ask: Asks the API server.
    """

    def __init__(self, node: str, ask: AskApi) -> None:
        self._path = f"/api/v1/pods?fieldSelector={quote(f'spec.nodeName={node}')}"
        self._ask = ask
        self._trouble = ""

    def __call__(self) -> list[Target]:
        """Return the pages; none while the API server does not answer, which is logged once."""
        try:
            pods = cast("list[Mapping[str, Any]]", self._ask(self._path).get("items") or [])
            found = [target for pod in pods for target in _read_pod(pod)]
        except (KubernetesError, TypeError, AttributeError) as error:
            if str(error) != self._trouble:
                _log.warning("cannot list this node's pods: %s", error)
            self._trouble = str(error)
            return []
        self._trouble = ""
        return found


def _read_pod(pod: Mapping[str, Any]) -> Iterator[Target]:
    metadata = cast("Mapping[str, Any]", pod.get("metadata") or {})
    status = cast("Mapping[str, Any]", pod.get("status") or {})
    annotations = cast("Mapping[str, str]", metadata.get("annotations") or {})
    address = str(status.get("podIP") or "")
    if (
        str(annotations.get(f"{_PREFIX}scrape")).lower() != "true"
        or annotations.get(f"{_PREFIX}path", _PATH) != _PATH
        or annotations.get(f"{_PREFIX}scheme", "http") != "http"
        or status.get("phase") != "Running"
        or not _is_reachable(address)
    ):
        return
    labels = (("replica", str(metadata.get("name") or "")), ("run", annotations.get(_RUN, "")))
    for port in _list_ports(pod, annotations.get(f"{_PREFIX}port", "")):
        host = f"[{address}]" if ":" in address else address
        yield Target(JOB, f"{host}:{port}", tuple((key, value) for key, value in labels if value))


def _list_ports(pod: Mapping[str, Any], annotated: str) -> list[int]:
    """Return the port of the annotation, else those that the pod's containers declare."""
    if annotated:
        return [int(annotated)] if annotated.isdecimal() and 0 < int(annotated) < 65_536 else []
    spec = cast("Mapping[str, Any]", pod.get("spec") or {})
    containers = cast("list[Mapping[str, Any]]", spec.get("containers") or [])
    ports = [
        port
        for container in containers
        for port in cast("list[Mapping[str, Any]]", container.get("ports") or [])
    ]
    return [
        int(port["containerPort"])
        for port in ports
        if port.get("protocol", "TCP") == "TCP" and isinstance(port.get("containerPort"), int)
    ]


def _is_reachable(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not parsed.is_loopback and may_hold_page(parsed)


def find_pods(environ: Mapping[str, str], account: Path = ACCOUNT) -> AnnotatedPods | None:
    """Return what lists the pods of this node, None outside of Kubernetes or without its name."""
    host, node = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("NODE_NAME")
    if not host or not node or not (account / "token").exists():
        return None
    port = environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get(
        "KUBERNETES_SERVICE_PORT", "443"
    )
    return AnnotatedPods(node, _ApiServer(host, int(port), account).ask)


class _ApiServer:
    """The API server, asked with the pod's own account: its token is renewed on disk."""

    def __init__(self, host: str, port: int, account: Path) -> None:
        self._host, self._port, self._account = host, port, account

    def ask(self, path: str) -> Mapping[str, Any]:
        try:
            token = (self._account / "token").read_text().strip()
            context = ssl.create_default_context(cafile=str(self._account / "ca.crt"))
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_TIMEOUT_S, context=context
            )
            try:
                headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                body = response.read(_MAX_ANSWER_BYTES)
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise KubernetesError(str(error) or type(error).__name__) from error
        if response.status == 403:
            raise KubernetesError("the agent's service account may not list pods (status 403)")
        if response.status != 200:
            raise KubernetesError(f"status {response.status}")
        try:
            return cast("Mapping[str, Any]", json.loads(body))
        except ValueError as error:
            raise KubernetesError(f"no JSON ({error})") from error
