"""The Ray job that a process works for, under a name that is its own beyond its cluster."""

from collections.abc import Mapping
from pathlib import Path

RAY_JOB_PREFIX = "ray/"
_JOB = "RAY_JOB_ID"
_RAYLET = "RAY_RAYLET_PID"
# Workers that were started before any job wanted one say so.
_NO_JOB = "ffffffff"
_SESSION = "--session-name="


def find_ray_job(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """Return `ray/SESSION/JOB`, "" for a process that is no worker of a Ray job.

    Every cluster counts its jobs from 1; the raylet that started the worker names the session.

    Args:
        environ: The worker's environment.
        root: Where `proc` lies.
    """
    job, raylet = environ.get(_JOB, ""), environ.get(_RAYLET, "")
    if not job or job == _NO_JOB or not raylet.isdecimal():
        return ""
    try:
        arguments = (root / "proc" / raylet / "cmdline").read_text(encoding="utf-8").split("\0")
    except (OSError, UnicodeDecodeError):
        return ""
    for argument in arguments:
        if argument.startswith(_SESSION):
            return f"{RAY_JOB_PREFIX}{argument.removeprefix(_SESSION)}/{job}"
    return ""


def find_ray_job_of(pid: int, proc: Path = Path("/proc")) -> str:
    """Return the Ray job of another process of this node, "" when it has none or keeps it secret.

    A process in a container names its raylet by the container's numbers: it is looked up there.

    Args:
        pid: The process, as this one sees it.
        proc: Where the system shows processes.
    """
    try:
        entries = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in entries)
    environ = {name: value for name, _, value in pairs if name in {_JOB, _RAYLET}}
    return find_ray_job(environ, proc / str(pid) / "root") or find_ray_job(environ, proc.parent)
