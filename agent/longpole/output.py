"""What programs say on standard output, which may take nothing: a full disk, a reader that left."""

import contextlib
import os
import sys


def open_output() -> None:
    """Open what the caller closed (`>&-`), so that a program may speak without asking."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - so Python has it then
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - for good


def announce(line: str) -> None:
    """Say something that nobody has to hear: the program goes on where it cannot be said."""
    try:
        print(line, flush=True)  # noqa: T201 - on purpose, for people
    except OSError:
        leave_output()


def leave_output() -> None:
    """Write what still comes, and what is still held back, to nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
