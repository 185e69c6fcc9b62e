"""Small durable things on disk: syncs, a lock on a directory, a number that survives a crash."""

import errno
import fcntl
import os
import struct
import zlib
from pathlib import Path


class DirectoryLockedError(Exception):
    """Another process holds the lock; the message names it when it is known."""


def sync_data(fd: int) -> None:
    """Make the content of an open file durable."""
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_directory(directory: Path) -> None:
    """Make creations and renames in `directory` durable."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock_directory(directory: Path) -> int:
    """Take the lock of `directory` and return a descriptor; closing it gives the lock back.

    Raises:
        DirectoryLockedError: Another process (or another owner in this one) holds it.
        OSError: The lock file cannot be written.
    """
    fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        raise DirectoryLockedError(f"{directory} is in use by process {holder}") from None
    except OSError:
        os.close(fd)
        raise
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
    return fd


class Cursor:
    """A number that only grows, in a file of two slots written in turn.

    A write that a crash tears leaves the other slot, with the number before it.

    Raises:
        OSError: The file cannot be used.
    """

    _SLOT = struct.Struct("<QI")
    # Far enough apart that one torn write never touches both.
    _OFFSETS = (0, 4096)

    def __init__(self, path: Path) -> None:
        existed = path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not existed:
            sync_directory(path.parent)
        self._take_room()
        numbers = [self._read_slot(offset) for offset in self._OFFSETS]
        self.value = max(numbers)
        self._next_slot = numbers.index(min(numbers))

    def write(self, value: int) -> None:
        """Store `value` durably."""
        number = struct.pack("<Q", value)
        slot = number + struct.pack("<I", zlib.crc32(number))
        if os.pwrite(self._fd, slot, self._OFFSETS[self._next_slot]) != len(slot):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync_data(self._fd)
        self.value = value
        self._next_slot = 1 - self._next_slot

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _take_room(self) -> None:
        """Take both slots' room now: a disk that is full later must not stop what frees it."""
        num_bytes = self._OFFSETS[1] + self._SLOT.size
        size = os.fstat(self._fd).st_size
        if size < num_bytes:
            os.pwrite(self._fd, bytes(num_bytes - size), size)

    def _read_slot(self, offset: int) -> int:
        data = os.pread(self._fd, self._SLOT.size, offset)
        if len(data) < self._SLOT.size:
            return 0
        value, checksum = self._SLOT.unpack(data)
        return value if zlib.crc32(data[:8]) == checksum else 0
