"""A file that grows, read across truncation and rotation."""

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20
# The beginning of a file, by which one that was emptied and written anew is told.
_HEAD_BYTES = 1024


class Tail:
    """Reads a file to its end, and what is added to it, until it is told to stop.

    A file that was renamed is read to its end before the new one of its name is opened. One that
    was emptied is read from its start.

    Args:
        path: The file; it need not exist yet.
        wait: Called when there is nothing new; returns false to stop.
    """

    def __init__(self, path: Path, wait: Callable[[], bool]) -> None:
        self._path = path
        self._wait = wait
        self.num_bytes = 0
        self.num_restarts = 0

    def read_blocks(self) -> Iterator[bytes]:
        """Yield what the file holds, in order; a line cut by a restart is ended."""
        while True:
            stream = self._open()
            if stream is None:
                if not self._wait():
                    return
                continue
            with stream:
                if not (yield from self._follow(stream)):
                    return
            self.num_restarts += 1
            yield b"\n"

    def _open(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            return None

    def _follow(self, stream: BinaryIO) -> Generator[bytes, None, bool]:
        """Read one file; return whether another one has its name now."""
        head = b""
        while True:
            # Before reading: one that was written anew may be longer than it was.
            if self._was_emptied(stream, head):
                self.num_restarts += 1
                stream.seek(0)
                head = b""
                yield b"\n"
            block = stream.read(_BLOCK_BYTES)
            if block:
                self.num_bytes += len(block)
                head = (head + block)[:_HEAD_BYTES] if len(head) < _HEAD_BYTES else head
                yield block
            elif self._was_replaced(stream):
                # What was written between the last read and the renaming.
                while block := stream.read(_BLOCK_BYTES):
                    self.num_bytes += len(block)
                    yield block
                return True
            elif not self._wait():
                return False

    def _was_emptied(self, stream: BinaryIO, head: bytes) -> bool:
        number = stream.fileno()
        if os.fstat(number).st_size < stream.tell():
            return True
        return os.pread(number, len(head), 0) != head

    def _was_replaced(self, stream: BinaryIO) -> bool:
        opened = os.fstat(stream.fileno())
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino)
