"""Opens a log, finds out its format, and streams its steps in bounded memory."""

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from longpole_server.errors import UnreadableLogError
from longpole_server.importers.logged import LogFormat, LoggedStep, LogLine, LogSummary
from longpole_server.importers.merging import merge_steps
from longpole_server.importers.verl_console import parse_console
from longpole_server.importers.verl_jsonl import parse_jsonl

# Longest line that is read as one; verl's lines have 3 to 20 kB.
MAX_LINE_BYTES = 8 << 20
_SNIFF_BYTES = 64 << 10

_PARSERS: dict[LogFormat, Callable[[Iterable[str], LogSummary], Iterator[LogLine]]] = {
    "verl_console": parse_console,
    "verl_jsonl": parse_jsonl,
}


@dataclass(frozen=True, slots=True)
class LogSource:
    """A log to read: any number of times, from its start.

    Attributes:
        name: For messages and default names; a file's name.
        open: Returns a new binary stream at the start.
        modified_ns: When it was last written, UTC nanoseconds.
    """

    name: str
    open: Callable[[], BinaryIO]
    modified_ns: int

    @classmethod
    def of_file(cls, path: Path) -> "LogSource":
        """Return the source of a file.

        Raises:
            UnreadableLogError: It is missing, a directory, or may not be read.
        """
        try:
            if path.is_dir():
                raise UnreadableLogError(f"{path} is a directory; name a log file in it.")
            with path.open("rb"):
                modified_ns = path.stat().st_mtime_ns
        except FileNotFoundError as error:
            raise UnreadableLogError(f"{path}: no such file.") from error
        except OSError as error:
            raise UnreadableLogError(f"{path}: {error.strerror or error}.") from error
        return cls(path.name, lambda: path.open("rb"), modified_ns)

    @classmethod
    def of_bytes(cls, name: str, body: bytes, modified_ns: int) -> "LogSource":
        """Return the source of a log that was sent as a whole."""
        return cls(name, lambda: io.BytesIO(body), modified_ns)


def read_steps(source: LogSource, summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield the steps a log holds; `summary` is complete when the iterator is exhausted.

    Raises:
        UnreadableLogError: The file is binary.
    """
    with source.open() as stream:
        head = stream.read(_SNIFF_BYTES)
        if b"\x00" in head:
            raise UnreadableLogError(f"{source.name} is a binary file, not a log.")
        stream.seek(0)
        summary.format = _find_format(head)
        lines = _read_lines(stream, summary)
        yield from merge_steps(_PARSERS[summary.format](lines, summary), summary)


def _find_format(head: bytes) -> LogFormat:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return "verl_jsonl" if text.startswith(b"{") else "verl_console"


def _read_lines(stream: BinaryIO, summary: LogSummary) -> Iterator[str]:
    skipping = False
    while raw := stream.readline(MAX_LINE_BYTES):
        complete = raw.endswith(b"\n")
        if skipping:
            skipping = not complete
            continue
        if len(raw) >= MAX_LINE_BYTES and not complete:
            summary.num_overlong += 1
            skipping = True
            continue
        summary.num_lines += 1
        yield raw.decode("utf-8", errors="replace")


def refuse_without_steps(source: LogSource, summary: LogSummary) -> UnreadableLogError:
    """Return the error for a log in which no step is complete."""
    return UnreadableLogError(
        f"{source.name} holds no complete training step ({summary.num_lines} lines read).",
        hint="Expected verl console lines `step:N - timing_s/step:...` or verl's JSONL file.",
    )
