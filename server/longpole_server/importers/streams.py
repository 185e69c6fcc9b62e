"""Readable streams over several others, and over a part of one."""

import io
from collections.abc import Iterator
from typing import BinaryIO


class Concatenation(io.RawIOBase):
    """Streams one after the other, each taken when the one before it has ended."""

    def __init__(self, streams: Iterator[BinaryIO]) -> None:
        super().__init__()
        self._streams = streams
        self._current: BinaryIO | None = None

    def readable(self) -> bool:
        """Return true."""
        return True

    # The base names no type of buffer that can be written to.
    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Fill the buffer from the stream whose turn it is."""
        while True:
            if self._current is None:
                self._current = next(self._streams, None)
                if self._current is None:
                    return 0
            block = self._current.read(len(buffer))
            if block:
                buffer[: len(block)] = block
                return len(block)
            self._current = None


class Section(io.RawIOBase):
    """A part of a stream that can seek; closing it closes the stream."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size
        stream.seek(start)

    def readable(self) -> bool:
        """Return true."""
        return True

    # The base names no type of buffer that can be written to.
    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Fill the buffer from what is left of the part."""
        block = self._stream.read(min(len(buffer), self._left))
        buffer[: len(block)] = block
        self._left -= len(block)
        return len(block)

    def close(self) -> None:
        """Close the stream too."""
        self._stream.close()
        super().close()
