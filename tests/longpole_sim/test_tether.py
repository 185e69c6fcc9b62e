import signal
import subprocess
import sys

import pytest

from longpole_sim.tether import tethered
from support.agent_waiting import is_running, wait_until

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


def test_a_tethered_process_ends_with_its_parent_however_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child_pid = int(parent.stdout.readline())
        assert is_running(child_pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_until(lambda: not is_running(child_pid))


def test_the_command_keeps_its_exit_status() -> None:
    command = tethered([sys.executable, "-c", "raise SystemExit(7)"])
    assert subprocess.run(command, check=False).returncode == 7


def test_without_its_parent_it_does_not_start() -> None:
    command = tethered([sys.executable, "-c", "print('started')"])
    command[3] = "1"  # not the process that starts it
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stdout == ""
