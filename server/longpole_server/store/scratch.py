"""Files that live as long as one insert: in a directory of our own, so that a kill leaves none."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from longpole_server.errors import StoreError


@contextmanager
def own_scratch(directory: Path) -> Generator[None]:
    """Let this process put its temporary files into a directory, which is emptied first.

    The database's driver writes each insert into such a file; a kill in between leaves it there.

    Args:
        directory: Of this process alone: its owner holds the lock of the data directory.

    Raises:
        StoreError: The directory cannot be made.
    """
    shutil.rmtree(directory, ignore_errors=True)
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot create {directory}: {error.strerror}") from error
    before = tempfile.tempdir
    tempfile.tempdir = str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before
        shutil.rmtree(directory, ignore_errors=True)
