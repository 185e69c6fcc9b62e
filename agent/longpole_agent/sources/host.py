"""CPU, memory and network of this node, through psutil."""

import socket
from collections.abc import Sequence

import psutil

from longpole.conventions.gpus import (
    HOST_CPU_UTILIZATION,
    HOST_MEMORY_LIMIT,
    HOST_MEMORY_USAGE,
    HOST_NETWORK_IO,
)
from longpole_agent.sources.source import Point

# Interfaces whose traffic never leaves the node, or is counted again on a physical one.
_VIRTUAL_INTERFACES = ("lo", "veth", "docker", "br-", "virbr", "cali", "cni", "flannel", "tun")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_LOCAL_PREFIXES = ("127.", "169.254.", "::1", "fe80:")
_DIRECTION = "network.io.direction"


class HostSource:
    """`Source` of the node itself."""

    name = "host"

    def __init__(self) -> None:
        # The first call has nothing to compare with and says 0.
        psutil.cpu_percent()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return utilisation since the last sample, memory now, bytes since boot."""
        memory = psutil.virtual_memory()
        used_bytes = memory.total - memory.available
        received, sent = _count_network_bytes()
        receive, transmit = ((_DIRECTION, "receive"),), ((_DIRECTION, "transmit"),)
        return [
            Point(HOST_CPU_UTILIZATION, "1", "gauge", ts_ns, psutil.cpu_percent() / 100.0),
            Point(HOST_MEMORY_USAGE, "By", "total", ts_ns, used_bytes, (_MEMORY_USED,)),
            Point(HOST_MEMORY_LIMIT, "By", "total", ts_ns, memory.total),
            Point(HOST_NETWORK_IO, "By", "counter", ts_ns, received, receive),
            Point(HOST_NETWORK_IO, "By", "counter", ts_ns, sent, transmit),
        ]

    def close(self) -> None:
        """Nothing is held."""


_MEMORY_USED = ("system.memory.state", "used")


def list_addresses() -> list[str]:
    """Return the network addresses of this node, without loopback and link-local ones."""
    found: list[str] = []
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            text = address.address.partition("%")[0]
            if address.family in _FAMILIES and not text.startswith(_LOCAL_PREFIXES):
                found.append(text)
    return sorted(found)


def _count_network_bytes() -> tuple[int, int]:
    received = sent = 0
    for name, counters in psutil.net_io_counters(pernic=True).items():
        if not name.startswith(_VIRTUAL_INTERFACES):
            received += counters.bytes_recv
            sent += counters.bytes_sent
    return received, sent
