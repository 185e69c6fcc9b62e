"""A kubelet's PodResources service on a unix socket, with messages of protobuf itself."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "v1"
_Field = descriptor_pb2.FieldDescriptorProto
# Message -> field -> (number, type, repeated), as in Kubernetes' api.proto.
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources", True)},
    "PodResources": {
        "name": (1, "string", False),
        "namespace": (2, "string", False),
        "containers": (3, "ContainerResources", True),
    },
    "ContainerResources": {
        "name": (1, "string", False),
        "devices": (2, "ContainerDevices", True),
        "cpu_ids": (3, "int64", True),
        "memory": (4, "ContainerMemory", True),
    },
    "ContainerMemory": {"memory_type": (1, "string", False), "size": (2, "uint64", False)},
    "ContainerDevices": {
        "resource_name": (1, "string", False),
        "device_ids": (2, "string", True),
        "topology": (3, "NUMATopology", False),
    },
    "NUMATopology": {"nodes": (1, "NUMANode", True)},
    "NUMANode": {"ID": (1, "int64", False)},
}
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
}
# Pod -> container -> resource -> device ids; a pod is `namespace/name`.
Pods = Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]]


def _build_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="pod_resources.proto", package=_PACKAGE, syntax="proto3"
    )
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for name, (number, kind, repeated) in fields.items():
            field = declared.field.add(
                name=name,
                number=number,
                label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
                type=_SCALARS.get(kind, _Field.TYPE_MESSAGE),
            )
            if kind not in _SCALARS:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
        for name in _MESSAGES
    }


MESSAGES = _build_messages()


def make_answer(pods: Pods) -> Any:
    """Return a `ListPodResourcesResponse`, with fields that a reader has to pass over."""
    answer = MESSAGES["ListPodResourcesResponse"]()
    for pod, containers in pods.items():
        namespace, _, name = pod.rpartition("/")
        of_pod = answer.pod_resources.add(name=name, namespace=namespace)
        for container, resources in containers.items():
            of_container = of_pod.containers.add(name=container, cpu_ids=[0, 1, 1 << 40])
            of_container.memory.add(memory_type="memory", size=1 << 34)
            for resource, device_ids in resources.items():
                devices = of_container.devices.add(resource_name=resource, device_ids=device_ids)
                devices.topology.nodes.add(ID=1)
    return answer


class Kubelet:
    """A server whose answer a test sets.

    Args:
        socket: Where it listens.
    """

    def __init__(self, socket: Path) -> None:
        self.pods: Pods = {}
        self.refusal: grpc.StatusCode | None = None
        self.num_asked = 0
        # While cleared, a question waits.
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=MESSAGES["ListPodResourcesRequest"].FromString,
            response_serializer=MESSAGES["ListPodResourcesResponse"].SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self._server.add_generic_rpc_handlers((service,))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def close(self) -> None:
        self.may_answer.set()
        self._server.stop(None).wait()

    def _list(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.num_asked += 1
        self.may_answer.wait(60.0)
        if self.refusal is not None:
            context.abort(self.refusal, "no")
        return make_answer(self.pods)
