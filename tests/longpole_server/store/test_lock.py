import os
import subprocess
import sys
from pathlib import Path

import pytest

from longpole_server.errors import StoreError, StoreLockedError
from longpole_server.store.lock import DirectoryLock

HOLD = """
import sys, pathlib
from longpole_server.store.lock import DirectoryLock
lock = DirectoryLock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_lock_names_the_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(StoreLockedError, match=rf"Process {os.getpid()} holds .*{tmp_path.name}"):
        DirectoryLock(tmp_path)
    lock.release()


def test_a_released_lock_can_be_taken_again(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()
    DirectoryLock(tmp_path).release()


def test_another_process_holds_it_until_it_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError, match=f"Process {holder.pid} holds"):
            DirectoryLock(tmp_path)
        holder.kill()
        holder.wait()
    DirectoryLock(tmp_path).release()


def test_a_missing_directory_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Cannot lock"):
        DirectoryLock(tmp_path / "missing")
