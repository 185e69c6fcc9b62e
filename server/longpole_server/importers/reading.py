"""Finds out a log's format and streams its steps in bounded memory."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from longpole_server.errors import UnreadableLogError
from longpole_server.importers.lines import is_utf16, read_blocks, read_lines
from longpole_server.importers.logged import LogFormat, LoggedStep, LogLine, LogSummary
from longpole_server.importers.merging import merge_steps
from longpole_server.importers.sources import LogSource
from longpole_server.importers.verl_console import parse_console
from longpole_server.importers.verl_jsonl import parse_jsonl

_HEAD_BYTES = 64 << 10

_PARSERS: dict[LogFormat, Callable[[Iterable[bytes], LogSummary], Iterator[LogLine]]] = {
    "verl_console": parse_console,
    "verl_jsonl": parse_jsonl,
}
_JSONL_LINE = re.compile(rb'^\W{0,3}\{\s*"(?:step|data)"\s*:', re.M)
_CONSOLE_LINE = re.compile(rb"(?<![\w/.-])step:\d+ - ")
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
        summary.format = _find_format(head)
        lines = read_lines(read_blocks(head, stream), summary)
        yield from merge_steps(_PARSERS[summary.format](lines, summary), summary)


def refuse_without_steps(source: LogSource, summary: LogSummary) -> UnreadableLogError:
    """Return the error for a log in which no step is complete."""
    if not summary.num_lines:
        return UnreadableLogError(f"{source.name} is empty.")
    if summary.num_step_lines:
        return UnreadableLogError(
            f"{source.name} holds no complete training step: none of its "
            f"{summary.num_step_lines} step lines says how long the step took.",
            hint="Expected verl's `timing_s/step` among the values.",
        )
    return UnreadableLogError(
        f"{source.name} holds no complete training step ({summary.num_lines} lines read).",
        hint="Expected verl console lines `step:N - timing_s/step:...` or verl's JSONL file.",
    )


def _refuse_binary(source: LogSource, head: bytes) -> None:
    for mark, command in _COMPRESSED.items():
        if head.startswith(mark):
            raise UnreadableLogError(
                f"{source.name} is a compressed file, not a log.",
                hint=f"Unpack it on the way: {command} FILE | longpole diagnose -",
            )
    is_log = is_utf16(head) or _CONSOLE_LINE.search(head) or _JSONL_LINE.search(head)
    if b"\x00" in head and not is_log:
        raise UnreadableLogError(f"{source.name} is a binary file, not a log.")


def _find_format(head: bytes) -> LogFormat:
    """Return the format of the first line that has one: a console may print JSON as well."""
    text = head.decode("utf-16", errors="replace").encode() if is_utf16(head) else head
    jsonl, console = _JSONL_LINE.search(text), _CONSOLE_LINE.search(text)
    if jsonl is None or (console is not None and console.start() < jsonl.start()):
        return "verl_console"
    return "verl_jsonl"
