"""CPU, memory, disks and networks of this node, through psutil and, for InfiniBand, `/sys`."""

import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from longpole.conventions.gpus import (
    FABRIC_IO,
    HOST_CPU_COUNT,
    HOST_CPU_UTILIZATION,
    HOST_DISK_IO,
    HOST_MEMORY_LIMIT,
    HOST_MEMORY_USAGE,
    HOST_NETWORK_IO,
    HW_ID,
)
from longpole_agent.sources.source import Point
from longpole_agent.sources.timer import Timer

# Interfaces whose traffic never leaves the node, or is counted again on a physical one.
_VIRTUAL_INTERFACES = ("lo", "veth", "docker", "br-", "virbr", "cali", "cni", "flannel", "tun")
# Whole disks: partitions, and devices made of others, are counted there.
_WHOLE_DISK = re.compile(r"(?:sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_LOCAL_PREFIXES = ("127.", "169.254.", "::1", "fe80:")
_DIRECTION = "network.io.direction"
_DISK_DIRECTION = "disk.io.direction"
# InfiniBand counts lanes of four bytes (ABI/stable/sysfs-class-infiniband).
_BYTES_PER_WORD = 4
_FABRIC_FILES = (("port_rcv_data", "receive"), ("port_xmit_data", "transmit"))
_DEVICES_EVERY_NS = 60_000_000_000
_RARELY_NS = 10_000_000_000


class HostSource:
    """`Source` of the node itself.

    Args:
        sys: Where the system shows its devices.
    """

    name = "host"

    def __init__(self, sys: Path = Path("/sys")) -> None:
        # The first call has nothing to compare with and says 0.
        psutil.cpu_percent()
        self._fabric = _Fabric(sys / "class" / "infiniband")
        self._rarely = Timer()

    def sample(self, ts_ns: int) -> Sequence[Point]:
        """Return utilisation since the last sample, memory now, bytes since boot."""
        memory = psutil.virtual_memory()
        used_bytes = memory.total - memory.available
        received, sent = _count_network_bytes()
        receive, transmit = ((_DIRECTION, "receive"),), ((_DIRECTION, "transmit"),)
        points = [
            Point(HOST_CPU_UTILIZATION, "1", "gauge", ts_ns, psutil.cpu_percent() / 100.0),
            Point(HOST_MEMORY_USAGE, "By", "total", ts_ns, used_bytes, (_MEMORY_USED,)),
            Point(HOST_MEMORY_LIMIT, "By", "total", ts_ns, memory.total),
            Point(HOST_NETWORK_IO, "By", "counter", ts_ns, received, receive),
            Point(HOST_NETWORK_IO, "By", "counter", ts_ns, sent, transmit),
            *self._fabric.sample(ts_ns),
            *_count_disk_bytes(ts_ns),
        ]
        if self._rarely.is_due(ts_ns):
            self._rarely.set(ts_ns, _RARELY_NS)
            count = psutil.cpu_count()
            points.append(Point(HOST_CPU_COUNT, "{cpu}", "total", ts_ns, count))
        return points

    def close(self) -> None:
        """Nothing is held."""


_MEMORY_USED = ("system.memory.state", "used")


class _Fabric:
    """InfiniBand and RoCE ports, which count apart from the system's networks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._timer = Timer()
        self._files: list[tuple[str, str, Path]] = []

    def sample(self, ts_ns: int) -> Iterator[Point]:
        if self._timer.is_due(ts_ns):
            self._timer.set(ts_ns, _DEVICES_EVERY_NS)
            self._files = list(self._list_files())
        totals: dict[tuple[str, str], int] = {}
        for device, direction, file in self._files:
            words = _read_number(file)
            if words is not None:
                key = (device, direction)
                totals[key] = totals.get(key, 0) + words * _BYTES_PER_WORD
        for (device, direction), total in totals.items():
            attributes = ((HW_ID, device), (_DIRECTION, direction))
            yield Point(FABRIC_IO, "By", "counter", ts_ns, total, attributes)

    def _list_files(self) -> Iterator[tuple[str, str, Path]]:
        for counters in sorted(self._directory.glob("*/ports/*/counters")):
            device = counters.parents[2].name
            for name, direction in _FABRIC_FILES:
                if (counters / name).exists():
                    yield device, direction, counters / name


def _read_number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


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


def _count_disk_bytes(ts_ns: int) -> Iterator[Point]:
    """Yield what all disks read and wrote; nothing where none is shown."""
    shown = psutil.disk_io_counters(perdisk=True) or {}
    disks = [counters for name, counters in shown.items() if _WHOLE_DISK.fullmatch(name)]
    if disks:
        totals = {
            "read": sum(each.read_bytes for each in disks),
            "write": sum(each.write_bytes for each in disks),
        }
        for direction, total in totals.items():
            attributes = ((_DISK_DIRECTION, direction),)
            yield Point(HOST_DISK_IO, "By", "counter", ts_ns, total, attributes)
