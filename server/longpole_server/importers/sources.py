"""Where a log comes from: a file, a pipe, or bytes that were sent."""

import io
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from longpole_server.errors import UnreadableLogError

_STANDARD_INPUT = 0


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log to read.

    Attributes:
        name: For messages and default names; a file's name.
        open: Returns a new binary stream at the start; for a pipe, only once.
        modified_ns: When it was last written, UTC nanoseconds.
    """

    name: str
    open: Callable[[], BinaryIO]
    modified_ns: int

    @classmethod
    def of_file(cls, path: Path) -> "LogSource":
        """Return the source of a file. A named pipe can be read once.

        Raises:
            UnreadableLogError: It is missing, a directory, or may not be read.
        """
        try:
            status = path.stat()
            if stat.S_ISDIR(status.st_mode):
                raise UnreadableLogError(f"{path} is a directory; name a log file in it.")
            if stat.S_ISREG(status.st_mode):
                # A pipe is not tried: its writer would see the trial as its reader going away.
                with path.open("rb"):
                    pass
        except FileNotFoundError as error:
            raise UnreadableLogError(f"{path}: no such file.") from error
        except OSError as error:
            raise UnreadableLogError(f"{path}: {error.strerror or error}.") from error
        return cls(printable_name(path), lambda: path.open("rb"), status.st_mtime_ns)

    @classmethod
    def of_standard_input(cls) -> "LogSource":
        """Return the source of what is piped in; it can be read once.

        Raises:
            UnreadableLogError: There is no standard input.
        """
        try:
            modified_ns = os.fstat(_STANDARD_INPUT).st_mtime_ns
        except OSError as error:
            raise UnreadableLogError("nothing is piped in.") from error
        # Opened by its number, so that closing the stream leaves the process's own input alone.
        return cls("stdin", lambda: open(_STANDARD_INPUT, "rb", closefd=False), modified_ns)

    @classmethod
    def of_bytes(cls, name: str, body: bytes, modified_ns: int) -> "LogSource":
        """Return the source of a log that was sent as a whole."""
        return cls(name, lambda: io.BytesIO(body), modified_ns)


def printable_name(path: Path) -> str:
    """Return a file's name as text; bytes that are none become question marks."""
    return path.name.encode("utf-8", errors="replace").decode("utf-8")
