"""To which job and which pod a process of this node belongs, from `/proc`."""

import logging
import re
from pathlib import Path

from longpole.conventions import attributes as names
from longpole.pod import find_pod_uid
from longpole_agent.sources.source import Attributes

_log = logging.getLogger(__name__)

_VARIABLES = {b"SLURM_JOB_ID": names.SLURM_JOB_ID, b"RAY_JOB_ID": names.RAY_JOB_ID}
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
        """Return `slurm.job.id`, `ray.job.id` and `k8s.pod.uid` of a process, as far as known."""
        directory = self._proc / str(pid)
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
        found: dict[str, str] = {}
        groups = _read_groups(directory / "cgroup")
        if (job := _SLURM_GROUP.search(groups)) is not None:
            found[names.SLURM_JOB_ID] = job[1]
        if (uid := find_pod_uid(groups)) is not None:
            found[names.K8S_POD_UID] = uid
        try:
            found.update(_read_jobs(directory / "environ"))
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


def _read_jobs(path: Path) -> dict[str, str]:
    """Return the jobs that an environment names.

    Raises:
        OSError: It cannot be read.
    """
    found: dict[str, str] = {}
    for entry in path.read_bytes().split(b"\0"):
        variable, _, value = entry.partition(b"=")
        if value and variable in _VARIABLES:
            found[_VARIABLES[variable]] = value.decode("utf-8", "replace")[:_MAX_TEXT_CHARS]
    return found
