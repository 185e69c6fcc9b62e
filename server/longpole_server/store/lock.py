"""The lock of a data directory: one process at a time, and a clear word on who holds it."""

import fcntl
import os
from pathlib import Path

from longpole_server.errors import StoreError, StoreLockedError


class DirectoryLock:
    """Holds `store.lock` in a directory from construction until `release`, or the process's end.

    Args:
        directory: Must exist.

    Raises:
        StoreLockedError: Another holder has it; the message names its process id.
        StoreError: The file cannot be written.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "store.lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StoreError(f"Cannot lock the data directory {directory}: {error}.") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 32).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise StoreLockedError(
                f"Process {holder or '(unknown)'} holds the data directory {directory}.",
                hint="Stop that process, or give this one another --data-dir.",
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let the next one in. Calling it again does nothing."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1
