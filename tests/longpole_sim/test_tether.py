import os
import signal
import subprocess
import sys
import time

import pytest

from longpole_sim.tether import tethered

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel call is Linux's"),
]

# Starts a tethered process, says its pid, and waits.
_PARENT = """
import subprocess, sys, time
from longpole_sim.tether import tethered
child = subprocess.Popen(tethered([sys.executable, "-c", "import time; time.sleep(600)"]))
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} still lives")


def test_a_tethered_process_ends_with_its_parent_however_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        os.kill(child_pid, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_for_end(child_pid)


def test_the_command_keeps_its_exit_status() -> None:
    command = tethered([sys.executable, "-c", "raise SystemExit(7)"])
    assert subprocess.run(command, check=False).returncode == 7


def test_without_its_parent_it_does_not_start() -> None:
    command = tethered([sys.executable, "-c", "print('started')"])
    command[3] = "1"  # not the process that starts it
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout == ""
