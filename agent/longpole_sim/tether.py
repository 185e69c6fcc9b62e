"""Processes that do not outlive the one that started them, whatever way that one ends.

Run as a module it becomes another program: `python -m longpole_sim.tether PARENT_PID COMMAND...`.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

# Linux: `man 2 prctl`.
_PR_SET_PDEATHSIG = 1


def tie_to_parent(parent_pid: int, ending: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send `ending` to this process when its parent dies.

    Exits at once when the parent is gone already. Elsewhere than on Linux it does nothing more.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(ending), 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit(1)


def tethered(command: Sequence[str]) -> list[str]:
    """Return a command line that runs `command` tied to the calling process.

    It gets SIGTERM when the caller dies, so that it can finish what it holds.
    """
    return [sys.executable, "-m", "longpole_sim.tether", str(os.getpid()), *command]


def _main(arguments: Sequence[str]) -> None:
    tie_to_parent(int(arguments[0]), signal.SIGTERM)
    # PR_SET_PDEATHSIG survives execve.
    os.execvp(arguments[1], list(arguments[1:]))  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    _main(sys.argv[1:])
