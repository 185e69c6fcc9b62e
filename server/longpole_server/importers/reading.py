"""Finds out a log's format and streams its steps in bounded memory."""

import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from longpole_server.errors import UnreadableLogError
from longpole_server.importers.formats import LINE_FORMATS, VERL_CONSOLE, LineFormat, recognise
from longpole_server.importers.lines import is_utf16, read_blocks, read_lines
from longpole_server.importers.logged import LoggedStep, LogLine, LogSummary
from longpole_server.importers.merging import merge_steps
from longpole_server.importers.sources import LogSource

_HEAD_BYTES = 64 << 10
# Lines before the first that betrays the format: what belongs to it may begin there.
_LOOK_BACK_LINES, _LOOK_BACK_BYTES = 5_000, 16 << 20
# First bytes of compressed files, with what unpacks them.
_COMPRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "zcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
    b"\xfd7zXZ\x00": "xzcat",
    b"BZh": "bzcat",
    b"PK\x03\x04": "unzip -p",
}


def read_steps(source: LogSource, summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield the steps a log holds; `summary` is complete when the iterator is exhausted.

    Raises:
        UnreadableLogError: The file is binary.
        OSError: Reading failed.
    """
    with source.open() as stream:
        head = stream.read(_HEAD_BYTES)
        _refuse_binary(source, head)
        summary.year = _year_of(source)
        lines = read_lines(read_blocks(head, stream), summary)
        yield from merge_steps(parse_lines(lines, summary), summary)


def parse_lines(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield what lines of any known format log; `summary` learns the format.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    seen: deque[bytes] = deque()
    num_bytes = 0
    rest = iter(lines)
    found: LineFormat | None = None
    for raw in rest:
        seen.append(raw)
        num_bytes += len(raw)
        while len(seen) > _LOOK_BACK_LINES or num_bytes > _LOOK_BACK_BYTES:
            num_bytes -= len(seen.popleft())
        found = recognise(raw)
        if found is not None:
            break
    # Step lines that a terminal broke betray nothing; only verl's are put together again so far.
    known = found or VERL_CONSOLE
    summary.format = known.name
    summary.times_are_local = known.times_are_local
    yield from known.parse(itertools.chain(_drain(seen), rest), summary)


def _drain(seen: deque[bytes]) -> Iterator[bytes]:
    while seen:
        yield seen.popleft()


def _year_of(source: LogSource) -> int:
    return time.gmtime(source.modified_ns // 10**9).tm_year


def refuse_without_steps(source: LogSource, summary: LogSummary) -> UnreadableLogError:
    """Return the error for a log in which no step is complete."""
    if not summary.num_lines:
        return UnreadableLogError(f"{source.name} is empty.")
    if summary.num_step_lines:
        return UnreadableLogError(
            f"{source.name} holds no complete training step: none of its "
            f"{summary.num_step_lines} step lines says how long the step took.",
            hint="Expected the seconds of the step or of its stages among the values, such as "
            "verl's `timing_s/step`.",
        )
    known = ", ".join(f"{format_.label} (`{format_.example}`)" for format_ in LINE_FORMATS)
    return UnreadableLogError(
        f"{source.name} holds no complete training step ({summary.num_lines} lines read).",
        hint=f"Expected one of: {known}.",
    )


def _refuse_binary(source: LogSource, head: bytes) -> None:
    for mark, command in _COMPRESSED.items():
        if head.startswith(mark):
            raise UnreadableLogError(
                f"{source.name} is a compressed file, not a log.",
                hint=f"Unpack it on the way: {command} FILE | longpole diagnose -",
            )
    if b"\x00" in head and not is_utf16(head) and not _betrays_format(head):
        raise UnreadableLogError(f"{source.name} is a binary file, not a log.")


def _betrays_format(head: bytes) -> bool:
    return any(recognise(line) is not None for line in head.replace(b"\x00", b"").splitlines())
