"""What the agent reads beside what a pretended `nvidia-smi` says of the same pretended driver."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from longpole_agent.sources.nvml.comparison import Compared, describe
from support.nvml_stub import NvmlStub

COMMAND = (sys.executable, "-m", "longpole.cli", "agent", "--compare-nvidia-smi", "1")
# As an older driver: no instant power; and a power limit that is read as power would be seen.
PROGRAM = """#!{python}
import sys

known = {{"utilization.gpu": "97", "memory.used": "{memory}", "memory.total": "81559",
         "power.draw": "612.50", "temperature.gpu": "61", "clocks.sm": "1755",
         "clocks.max.sm": "1980", "ecc.errors.uncorrected.volatile.total": "[N/A]"}}
fields = sys.argv[1].removeprefix("--query-gpu=").split(",")
assert sys.argv[2] == "--format=csv,noheader,nounits"
for field in fields[1:]:
    if field not in known:
        print(f'Field "{{field}}" is not a valid field to query.')
        sys.exit(2)
print(", ".join(["GPU-00000000", *(known[field] for field in fields[1:])]))
"""


def run(directory: Path, memory_mib: int | None) -> "subprocess.CompletedProcess[str]":
    stub = NvmlStub(directory / "nvml")
    stub.add_device()
    tools = directory / "bin"
    tools.mkdir()
    if memory_mib is not None:
        program = tools / "nvidia-smi"
        program.write_text(PROGRAM.format(python=sys.executable, memory=memory_mib))
        program.chmod(0o755)
    return subprocess.run(
        COMMAND,
        env={
            **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": str(tools),
            **stub.environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip


def test_both_tell_the_same(tmp_path: Path) -> None:
    done = run(tmp_path, 66_757)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "all values agree" in done.stdout
    lines = {line.split(",")[0].strip(): line for line in done.stdout.splitlines()}
    assert lines["power_watts"].split()[-2:] == ["612.5", "612.5"]
    assert lines["sm_clock_hz"].split()[-2:] == ["1,755.0", "1,755.0"]
    assert lines["utilization_ratio"].split()[-2:] == ["97.0", "97.0"]


def test_a_wrong_scale_is_seen(tmp_path: Path) -> None:
    done = run(tmp_path, 70_000)
    assert done.returncode == 1
    assert "1 of 8 values differ" in done.stdout
    assert "memory_used_bytes, MiB" in next(
        line for line in done.stdout.splitlines() if line.endswith("differs")
    )


def test_without_nvidia_smi_one_line_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, None)
    assert done.returncode == 2
    assert "nothing to compare: no nvidia-smi here" in done.stderr


@pytest.mark.parametrize("told", [None, 3.0])
def test_what_one_does_not_tell_is_no_difference(told: float | None) -> None:
    (_, line) = describe([Compared("GPU-0", "ecc", "", told, None, is_alike=True)])
    assert line.endswith("not told")
