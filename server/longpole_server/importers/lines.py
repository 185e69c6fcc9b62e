"""Physical lines of a log, in bounded memory, whatever its bytes are."""

import codecs
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from longpole_server.importers.logged import LogSummary

BLOCK_BYTES = 1 << 20
# Longest line that is read as one; verl's lines have 3 to 20 kB.
MAX_LINE_BYTES = 8 << 20

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_utf16(head: bytes) -> bool:
    """Return whether a file begins with a UTF-16 byte order mark."""
    return head.startswith(_UTF16_MARKS)


def read_blocks(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file as UTF-8 without byte order mark and NUL bytes.

    UTF-16 is what a PowerShell redirection writes; NUL bytes are what a crash or a rotated file
    leaves behind.

    Args:
        head: What was read from the stream already.
        stream: The rest.
    """
    blocks = _read_raw(head, stream)
    if is_utf16(head):
        blocks = _from_utf16(blocks)
    for index, block in enumerate(blocks):
        text = block.removeprefix(codecs.BOM_UTF8) if index == 0 else block
        yield text.replace(b"\x00", b"") if b"\x00" in text else text


def read_lines(blocks: Iterable[bytes], summary: LogSummary) -> Iterator[bytes]:
    r"""Yield lines with their end: `\n`, `\r` or `\r\n`; only the last one may have none.

    A carriage return ends a line too: progress bars rewrite theirs, for hours without a newline.
    """
    rest = b""
    skipping = False
    for block in blocks:
        lines = (rest + block).splitlines(keepends=True)
        rest = lines.pop() if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        if skipping:
            if not lines:
                rest = b""
                continue
            del lines[0]
            skipping = False
        if lines and len(lines[0]) > MAX_LINE_BYTES:
            summary.num_overlong += 1
            del lines[0]
        if len(rest) > MAX_LINE_BYTES:
            summary.num_overlong += 1
            skipping, rest = True, b""
        summary.num_lines += len(lines)
        yield from lines
    if rest and not skipping:
        summary.num_lines += 1
        # A progress bar never ends its line.
        summary.torn_last_line = b"%|" not in rest
        yield rest


def _read_raw(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    yield head
    while block := stream.read(BLOCK_BYTES):
        yield block


def _from_utf16(blocks: Iterable[bytes]) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", errors="replace")
    yield decoder.decode(b"", final=True).encode("utf-8", errors="replace")
