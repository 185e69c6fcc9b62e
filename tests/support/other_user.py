"""A user that is not root: what it may not do, root does not notice."""

import os
import shutil
import sys
from pathlib import Path

import pytest

UID = 65_532

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None,
    reason="only root makes files of several users, and setpriv becomes one of them",
)


def give(directory: Path, uid: int = UID) -> None:
    """Let a directory and all in it belong to a user."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def list_foreign(directory: Path, uid: int = UID) -> list[Path]:
    """List what in a directory belongs to anybody else."""
    return [path for path in directory.rglob("*") if path.lstat().st_uid != uid]


def as_other_user(*words: str) -> list[str]:
    """Return the command that runs Python as the user, who may look everywhere: an interpreter of
    root's, and a test's directory, are root's own."""
    return [
        "setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
        "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", sys.executable, *words,
    ]  # fmt: skip
