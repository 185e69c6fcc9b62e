"""Which process of this node is at the other end of a connection, and which job it works for.

RL-Insight's client names no process in what it sends, and all trainings call themselves alike. What
tells them apart is who holds the socket.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import psutil

from longpole.ray_job import find_ray_job_of

_TABLE_AGE_S = 1.0
_MAX_REMEMBERED = 1024
_CONNECTION_AGE_S = 120.0
# Where nothing is found, a look at all sockets is not taken with every request.
_NOTHING_AGE_S = 10.0


class Peers(Protocol):
    """Tells the job of a process from one of its sockets, "" when nobody knows."""

    def find_sender(self, address: str, port: int) -> str:
        """Return the job of the process that connected from an address."""
        ...

    def find_listener(self, port: int) -> str:
        """Return the job of the process that listens on a port."""
        ...


class NoPeers:
    """`Peers` of a node that shows nobody's sockets."""

    def find_sender(self, address: str, port: int) -> str:  # noqa: ARG002 - the protocol's names
        """Return ""."""
        return ""

    def find_listener(self, port: int) -> str:  # noqa: ARG002 - the protocol's name
        """Return ""."""
        return ""


class ProcessPeers:
    """`Peers` by the system's table of sockets. Thread-safe.

    Of other users' processes, and of those in other pid namespaces, nothing is found unless the
    agent may see them.

    Args:
        node: Name of this node: makes ids of processes unique beyond it.
        name_job: Names the job of a process of this node.
        clock_s: Monotonic seconds.
        pause: Waits some seconds.
    """

    def __init__(
        self,
        node: str,
        name_job: "Callable[[str, int], str] | None" = None,
        clock_s: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause = pause
        self._node = node
        self._name_job = name_job or name_job_of
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._read_s = float("-inf")
        self._senders: dict[tuple[str, int], int] = {}
        self._listeners: dict[int, int] = {}
        # Connections are kept alive for long: each is looked up once in a while.
        self._known: OrderedDict[tuple[str, int], tuple[float, str]] = OrderedDict()

    def find_sender(self, address: str, port: int) -> str:
        """Return the job of the process that connected from an address, "" if unknown."""
        key = (_plain(address), port)
        with self._lock:
            now_s = self._clock_s()
            known = self._known.get(key)
            if known is not None and now_s - known[0] <= (
                _CONNECTION_AGE_S if known[1] else _NOTHING_AGE_S
            ):
                return known[1]
            self._read_table(now_s)
            if key not in self._senders and self._read_s < now_s:
                # The connection may be younger than the table: wait until another is due.
                self._pause(max(0.0, self._read_s + _TABLE_AGE_S - now_s))
                self._read_table(self._read_s + _TABLE_AGE_S)
            pid = self._senders.get(key)
            job = "" if pid is None else self._name_job(self._node, pid)
            self._known.pop(key, None)
            if len(self._known) >= _MAX_REMEMBERED:
                self._known.popitem(last=False)
            self._known[key] = (now_s, job)
            return job

    def find_listener(self, port: int) -> str:
        """Return the job of the process that listens on a port, "" if unknown."""
        with self._lock:
            self._read_table(self._clock_s())
            pid = self._listeners.get(port)
            return "" if pid is None else self._name_job(self._node, pid)

    def _read_table(self, now_s: float) -> None:
        if now_s - self._read_s < _TABLE_AGE_S:
            return
        senders: dict[tuple[str, int], int] = {}
        listeners: dict[int, int] = {}
        try:
            for connection in psutil.net_connections(kind="tcp"):
                if connection.pid is None or not connection.laddr:
                    continue
                address, port = connection.laddr
                if connection.status == psutil.CONN_LISTEN:
                    # Forked servers share a socket: the parent, which is older, speaks for it.
                    listeners[port] = min(connection.pid, listeners.get(port, connection.pid))
                else:
                    senders[_plain(address), port] = connection.pid
        except (psutil.Error, OSError):
            pass
        # A table read later may miss what this one shows, not the other way round.
        self._senders, self._listeners, self._read_s = senders, listeners, now_s


def name_job_of(node: str, pid: int) -> str:
    """Return the job of a process: its Ray job, else the process itself; "" when it has gone."""
    try:
        process = psutil.Process(pid)
        ray_job = find_ray_job_of(pid)
        return ray_job or f"process/{node}/{pid}/{int(process.create_time() * 1000)}"
    except (psutil.Error, OSError):
        return ""


def _plain(address: str) -> str:
    return address.removeprefix("::ffff:")
