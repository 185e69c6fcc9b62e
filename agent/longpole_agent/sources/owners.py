"""Whose a process of this node is and what it says it does, from `/proc`."""

import logging
import re
from pathlib import Path

from longpole.conventions import attributes as names
from longpole.conventions.gpus import PROCESS_RANK, PROCESS_TITLE
from longpole.conventions.ray_titles import PREFIX
from longpole.pod import find_pod_uid
from longpole.ranks import read_rank
from longpole_agent.sources.source import Attributes

_log = logging.getLogger(__name__)

_VARIABLES = {"SLURM_JOB_ID": names.SLURM_JOB_ID, "RAY_JOB_ID": names.RAY_JOB_ID}
# Of workers that Ray started before any job wanted one.
_NO_RAY_JOB = "ffffffff"
# verl tells its workers their rank, in a group of its own.
_VERL_GROUP = "WG_PREFIX"
# Slurm names the job in the control group too, which a process that changes its title keeps.
_SLURM_GROUP = re.compile(r"/slurm\S*?/job_(\d+)(?:/|$)", re.MULTILINE)
_MAX_TEXT_CHARS = 128
_MAX_REMEMBERED = 4096


class ProcessOwners:
    """Looks each process up once: the answer is kept for its whole life.

    What cannot be read is left out. Said once: that a process of somebody else kept its
    environment to itself.

    Args:
        proc: Where the system shows its processes.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._owners: dict[int, tuple[str, Attributes]] = {}
        self._has_complained = False

    def find(self, pid: int) -> Attributes:
        """Return the job, pod and rank of a process and, under Ray, its title now.

        As far as known: `slurm.job.id`, `ray.job.id`, `k8s.pod.uid`, `process.rank`,
        `process.title`.
        """
        directory = self._proc / str(pid)
        return (*self._find_owner(pid, directory), *_read_title(directory))

    def _find_owner(self, pid: int, directory: Path) -> Attributes:
        try:
            started = _read_start(directory)
        except (OSError, IndexError):
            return ()
        known = self._owners.get(pid)
        if known is not None and known[0] == started:
            return known[1]
        owner = self._look_up(directory)
        self._owners.pop(pid, None)
        if len(self._owners) >= _MAX_REMEMBERED:
            del self._owners[next(iter(self._owners))]
        self._owners[pid] = (started, owner)
        return owner

    def _look_up(self, directory: Path) -> Attributes:
        found: dict[str, str | int] = {}
        groups = _read_groups(directory / "cgroup")
        if (job := _SLURM_GROUP.search(groups)) is not None:
            found[names.SLURM_JOB_ID] = job[1]
        if (uid := find_pod_uid(groups)) is not None:
            found[names.K8S_POD_UID] = uid
        try:
            found.update(_read_environment(directory / "environ"))
        except PermissionError:
            self._complain(directory)
        except OSError:
            pass
        return tuple(found.items())

    def _complain(self, directory: Path) -> None:
        if not self._has_complained:
            self._has_complained = True
            _log.warning(
                "no permission to read %s: the jobs of other users' processes are told by their "
                "control groups alone; run as root, or with CAP_SYS_PTRACE, to know more",
                directory / "environ",
            )


def _read_start(directory: Path) -> str:
    """Return when the process started, in ticks: with the pid it names one life of a process."""
    # The name in parentheses may hold anything; starttime is field 22 of proc_pid_stat(5).
    stat = (directory / "stat").read_bytes()
    return stat.rpartition(b")")[2].split()[19].decode("ascii")


def _read_groups(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _read_environment(path: Path) -> dict[str, str | int]:
    """Return the jobs and the rank that an environment names.

    Raises:
        OSError: It cannot be read.
    """
    environ: dict[str, str] = {}
    for entry in path.read_bytes().split(b"\0"):
        variable, _, value = entry.decode("utf-8", "replace").partition("=")
        if value:
            environ[variable] = value
    found: dict[str, str | int] = {
        attribute: environ[variable][:_MAX_TEXT_CHARS]
        for variable, attribute in _VARIABLES.items()
        if variable in environ and environ[variable] != _NO_RAY_JOB
    }
    rank = read_rank(environ)
    if rank is None and _VERL_GROUP in environ and environ.get("RANK", "").isdecimal():
        rank = int(environ["RANK"])
    if rank is not None:
        found[PROCESS_RANK] = rank
    return found


def _read_title(directory: Path) -> Attributes:
    try:
        first = (directory / "cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return ()
    title = first.decode("utf-8", "replace").rstrip()[:_MAX_TEXT_CHARS]
    return ((PROCESS_TITLE, title),) if title.startswith(PREFIX) else ()
