"""Which pod each GPU of this node is allocated to, as the kubelet's PodResources API tells it.

The kubelet answers on a unix socket of the node. The API: kubernetes, staging/src/k8s.io/kubelet/
pkg/apis/podresources/v1/api.proto.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from longpole.conventions import attributes as names
from longpole.conventions.gpus import GPU_ALLOCATION, HW_ID
from longpole_agent.sources.source import Point
from longpole_agent.sources.timer import Timer
from longpole_agent.sources.wire import read_messages, read_text

_log = logging.getLogger(__name__)

_LIST = "/v1.PodResourcesLister/List"
_EVERY_NS = 15_000_000_000
_FIRST_RETRY_NS = 15_000_000_000
_MAX_RETRY_NS = 300_000_000_000
_TIMEOUT_S = 2.0
# What the kubelet itself allows an answer to hold.
_MAX_ANSWER_BYTES = 16 << 20
_OPTIONS = (
    ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES),
    # A path is no host name, and servers written in Go refuse it as one.
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
)
# Field numbers of the API's messages.
_PODS = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES = 1, 2
_RESOURCE_NAME, _DEVICE_IDS = 1, 2

_GPU_RESOURCES = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared"})
_MIG_RESOURCES = "nvidia.com/mig-"
_UUID_PREFIXES = ("GPU-", "MIG-")
# Where several containers share a GPU in turn, its id is `<uuid>::<number>`.
_REPLICA_SEPARATOR = "::"


@dataclass(frozen=True, slots=True)
class Allocation:
    """A GPU, or a MIG device of one, that a container of a pod was given."""

    device_id: str
    namespace: str
    pod: str
    container: str


class PodResourcesSource:
    """`Source` of allocations. A node without the socket is one without Kubernetes.

    Args:
        socket: Path of the kubelet's socket.
        timeout_s: Bound of one question.
    """

    name = "pod_resources"

    def __init__(self, socket: Path, timeout_s: float = _TIMEOUT_S) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._timer = Timer()
        self._retry_ns = _FIRST_RETRY_NS
        self._channel: grpc.Channel | None = None
        self._said = ""

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return a point for each allocated GPU when they are due, every 15 s."""
        if not self._timer.is_due(ts_ns):
            return ()
        self._timer.set(ts_ns, _EVERY_NS)
        try:
            if not _exists(self._socket):
                self._close_channel()
                return ()
            allocations = tuple(parse_allocations(self._ask()))
        except (OSError, ValueError, grpc.RpcError) as error:
            self._close_channel()
            self._timer.set(ts_ns, self._retry_ns)
            self._retry_ns = min(2 * self._retry_ns, _MAX_RETRY_NS)
            self._say(logging.WARNING, f"{_describe(error)}; GPUs are joined to runs without pods")
            return ()
        self._retry_ns = _FIRST_RETRY_NS
        self._note(allocations)
        return [_make_point(allocation, ts_ns) for allocation in _select_known(allocations)]

    def close(self) -> None:
        """Close the connection."""
        self._close_channel()

    def _ask(self) -> bytes:
        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix:{self._socket.absolute()}", _OPTIONS)
        ask = self._channel.unary_unary(_LIST, bytes, bytes)
        # The question is a message without fields.
        return ask(b"", timeout=self._timeout_s)

    def _close_channel(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _note(self, allocations: Sequence[Allocation]) -> None:
        strange = next((each for each in allocations if not _is_uuid(each.device_id)), None)
        if strange is not None:
            self._say(
                logging.WARNING,
                f"the kubelet names GPUs in a way that is not known ({strange.device_id!r}): "
                "let the device plugin name them by uuid",
            )
        else:
            self._say(logging.INFO, "the kubelet tells which pod holds which GPU")

    def _say(self, level: int, message: str) -> None:
        """Log a message unless it was the last one."""
        if message != self._said:
            _log.log(level, "%s", message)
        self._said = message


def parse_allocations(answer: bytes) -> Iterator[Allocation]:
    """Yield the GPUs in an encoded `v1.ListPodResourcesResponse`, each once per container.

    Raises:
        ValueError: The bytes are no such message.
    """
    for pod in read_messages(answer, _PODS):
        namespace, pod_name = read_text(pod, _POD_NAMESPACE), read_text(pod, _POD_NAME)
        for container in read_messages(pod, _POD_CONTAINERS):
            container_name = read_text(container, _CONTAINER_NAME)
            for device_id in dict.fromkeys(_read_devices(container)):
                yield Allocation(device_id, namespace, pod_name, container_name)


def _read_devices(container: bytes) -> Iterator[str]:
    for devices in read_messages(container, _CONTAINER_DEVICES):
        resource = read_text(devices, _RESOURCE_NAME)
        if resource in _GPU_RESOURCES or resource.startswith(_MIG_RESOURCES):
            for device_id in read_messages(devices, _DEVICE_IDS):
                text = device_id.decode("utf-8", "replace")
                yield text.partition(_REPLICA_SEPARATOR)[0]


def _select_known(allocations: Sequence[Allocation]) -> Iterator[Allocation]:
    return (each for each in allocations if each.pod and _is_uuid(each.device_id))


def _is_uuid(device_id: str) -> bool:
    return device_id.startswith(_UUID_PREFIXES)


def _make_point(allocation: Allocation, ts_ns: int) -> Point:
    attributes = (
        (HW_ID, allocation.device_id),
        (names.K8S_NAMESPACE_NAME, allocation.namespace),
        (names.K8S_POD_NAME, allocation.pod),
        (names.K8S_CONTAINER_NAME, allocation.container),
    )
    return Point(GPU_ALLOCATION, "1", "gauge", ts_ns, 1, attributes)


def _exists(socket: Path) -> bool:
    """Tell whether the socket is there; a refusal to look is an error."""
    try:
        os.stat(socket)  # noqa: PTH116 - `Path.exists` tells some refusals as absence
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _describe(error: Exception) -> str:
    if isinstance(error, PermissionError):
        return f"no permission for the kubelet's socket {error.filename}: run as root"
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        code = error.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return "the kubelet does not speak PodResources v1 (Kubernetes 1.20 and later do)"
        return f"the kubelet does not answer on its PodResources socket ({code.name})"
    return f"the kubelet's answer cannot be read ({error})"
