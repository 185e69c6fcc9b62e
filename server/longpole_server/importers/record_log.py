"""LevelDB's log format, in which wandb and swanlab keep their records.

A file is a header of 7 bytes and blocks of 32 KiB; a record lies in one piece or in several, each
with a checksum, its length and its place.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from longpole_server.importers.logged import LogSummary

_HEADER = struct.Struct("<4sHB")
_BLOCK_BYTES = 32 << 10
_PIECE = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
# What is larger holds no metrics.
_MAX_RECORD_BYTES = 64 << 20


def read_records(
    stream: BinaryIO, summary: LogSummary, identity: tuple[bytes, int]
) -> Iterator[bytes]:
    """Yield the records of a file; damaged pieces are counted and skipped.

    Args:
        stream: The file from its start.
        summary: Counts grow as records are read.
        identity: The two parts of the header that say whose file it is.
    """
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size or _HEADER.unpack(header)[:2] != identity:
        summary.num_unreadable += 1
        return
    summary.num_lines += 1
    parts: list[bytes] = []
    block = stream.read(_BLOCK_BYTES - _HEADER.size)
    while block:
        for kind, piece in _read_pieces(block, summary):
            if kind in (_FULL, _FIRST):
                parts = [piece]
            elif parts:
                parts.append(piece)
            if kind in (_FULL, _LAST) and parts:
                summary.num_lines += 1
                yield b"".join(parts)
                parts = []
            if sum(map(len, parts)) > _MAX_RECORD_BYTES:
                summary.num_overlong += 1
                parts = []
        block = stream.read(_BLOCK_BYTES)


def _read_pieces(block: bytes, summary: LogSummary) -> Iterator[tuple[int, bytes]]:
    """Yield (place, bytes) of the sound pieces of a block; it may end in the middle of one."""
    at = 0
    while at + _PIECE.size <= len(block):
        checksum, size, kind = _PIECE.unpack_from(block, at)
        if kind == 0 and size == 0:
            # Zeros: the rest of a block, or what was allocated and never written.
            return
        end = at + _PIECE.size + size
        if end > len(block):
            summary.torn_last_line = True
            return
        piece = block[at + _PIECE.size : end]
        if kind in (_FULL, _FIRST, _MIDDLE, _LAST) and _checksum(kind, piece) == checksum:
            yield kind, piece
        else:
            summary.num_unreadable += 1
        at = end


def _checksum(kind: int, piece: bytes) -> int:
    return zlib.crc32(piece, zlib.crc32(bytes((kind,)))) & 0xFFFFFFFF
