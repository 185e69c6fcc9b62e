"""The raylets and workers of this node, from `/proc`.

Checked on Ray 2.60: a raylet names its session, directory and node in its arguments; a port that
was left to it stands in a file of that directory. Workers carry a title, `ray::CLASS.METHOD`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from longpole.conventions.ray_titles import PREFIX
from longpole.ray_job import find_ray_job_of

_RAYLET = "/raylet/raylet"
# A worker that has not given itself a title yet.
_UNTITLED = b"default_worker.py"
_PREFIX = PREFIX.encode()
_MAX_TITLE_BYTES = 256
_OLD_PORTS = "ports_by_node.json"


@dataclass(frozen=True, slots=True)
class Raylet:
    """One Ray node's manager.

    Attributes:
        page: `host:port` of its Prometheus page, "" when it has none.
    """

    pid: int
    session: str
    page: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that works for Ray.

    Attributes:
        job: `ray/SESSION/JOB`, "" while it works for none.
    """

    pid: int
    title: str
    job: str


@dataclass(frozen=True, slots=True)
class RayProcesses:
    """What runs on this node now."""

    raylets: tuple[Raylet, ...]
    workers: tuple[Worker, ...]


class ProcessTable:
    """Looks for Ray's processes; others are looked at once.

    Args:
        proc: Where the system shows its processes.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._others: set[int] = set()
        self._jobs: dict[int, str] = {}

    def scan(self, *, anew: bool = False) -> RayProcesses:
        """Return Ray's processes.

        Args:
            anew: Also look at those again that were none of Ray's: a number may be used again.
        """
        if anew:
            self._others.clear()
        pids = {int(name) for name in _list(self._proc) if name.isdecimal()}
        self._others &= pids
        self._jobs = {pid: job for pid, job in self._jobs.items() if pid in pids}
        raylets: list[Raylet] = []
        workers: list[Worker] = []
        for pid in sorted(pids - self._others):
            arguments = _read_arguments(self._proc / str(pid))
            if arguments[0].startswith(_PREFIX):
                workers.append(Worker(pid, _to_title(arguments[0]), self._find_job(pid)))
            elif arguments[0].endswith(_RAYLET.encode()):
                raylets.append(_read_raylet(self._proc, pid, arguments))
            elif not any(_UNTITLED in argument for argument in arguments[:4]):
                self._others.add(pid)
        return RayProcesses(tuple(raylets), tuple(_complete(workers)))

    def read_title(self, pid: int) -> str:
        """Return the title of a worker now, "" when it has gone."""
        first = _read_arguments(self._proc / str(pid))[0]
        return _to_title(first) if first.startswith(_PREFIX) else ""

    def read_private_bytes(self, pid: int) -> int | None:
        """Return the resident memory of a process without what it shares."""
        try:
            # proc_pid_statm(5), in pages: size, resident, shared.
            fields = (self._proc / str(pid) / "statm").read_bytes().split()
            return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return None

    def _find_job(self, pid: int) -> str:
        known = self._jobs.get(pid)
        if known is None:
            known = self._jobs[pid] = find_ray_job_of(pid, self._proc)
        return known


def _complete(workers: Iterable[Worker]) -> Iterator[Worker]:
    """Give workers that were started before any job the job of the others, if they are of one."""
    found = list(workers)
    jobs = {worker.job for worker in found if worker.job}
    only = jobs.pop() if len(jobs) == 1 else ""
    for worker in found:
        yield worker if worker.job else Worker(worker.pid, worker.title, only)


def _list(proc: Path) -> list[str]:
    try:
        return os.listdir(proc)  # noqa: PTH208 - a thousand names, every ten seconds
    except OSError:
        return []


def _read_arguments(directory: Path) -> list[bytes]:
    try:
        return (directory / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def _to_title(argument: bytes) -> str:
    # A title is padded to the room of the arguments that it replaced.
    return argument[:_MAX_TITLE_BYTES].decode("utf-8", "replace").rstrip()


def _read_raylet(proc: Path, pid: int, arguments: Iterable[bytes]) -> Raylet:
    options: dict[str, str] = {}
    for argument in arguments:
        name, _, value = argument.decode("utf-8", "replace").partition("=")
        options[name.lstrip("-").replace("-", "_")] = value
    address = options.get("node_ip_address", "")
    # The raylet's own files, also when it runs in a container.
    session = proc / str(pid) / "root" / options.get("session_dir", "").lstrip("/")
    port = _find_port(options, session)
    page = f"{address}:{port}" if address and port else ""
    return Raylet(pid, options.get("session_name", ""), page)


def _find_port(options: Mapping[str, str], session: Path) -> int:
    given = options.get("metrics_export_port", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        written = (session / f"metrics_export_port_{options.get('node_id', '')}").read_text()
        return int(written)
    except (OSError, ValueError):
        return _find_old_port(session)


def _find_old_port(session: Path) -> int:
    """Return the port as versions before 2.5x wrote it, if the directory is of one node only."""
    try:
        nodes = cast("dict[str, Any]", json.loads((session / _OLD_PORTS).read_text()))
        (ports,) = nodes.values()
        return int(ports["metrics_export_port"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return 0
