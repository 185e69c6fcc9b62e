"""A small disk: a tmpfs of a few mebibytes, which only root can have."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

_PIECE_BYTES = 64 * 1024


@contextmanager
def small_disk(directory: Path, num_bytes: int) -> Generator[Path]:
    """Make `directory` a disk of its own while the block runs; skips the test where it may not."""
    directory.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(directory: Path) -> Path:
    """Leave no free byte on a disk, and return the file that took them."""
    filler = directory / "filler"
    with filler.open("ab", buffering=0) as file:
        for num_bytes in (_PIECE_BYTES, 4096, 1):
            try:
                while file.write(bytes(num_bytes)) == num_bytes:
                    pass
            except OSError:
                continue
    return filler
