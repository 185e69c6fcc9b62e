"""What an agent costs that samples 8 GPUs through pynvml, and its host.

Run by hand: `python benchmarks/agent_devices.py [--seconds 30]`. NVML is the library that the tests
build: it answers at once, so that this is the cost of the calls from Python, not of a driver. What
a driver takes is in a recording: `longpole agent --record-nvml FILE`. CPU is that of all threads,
after a warm-up. The budgets are 1 % of a core and 80 MiB.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.nvml_stub import NvmlStub  # noqa: E402 - the path is set first

GPUS = 8
_WARM_S = 12


def measure(name: str, directory: Path, seconds: int, *options: str, divided: bool = False) -> None:
    """Print what an agent costs."""
    stub = NvmlStub(directory / f"nvml-{name.replace(' ', '-')}")
    for _ in range(GPUS):
        gpu = stub.add_a100() if "A100" in name else stub.add_device()
        gpu.num_processes = 1
        gpu.pids[0] = os.getpid()
        if divided:
            stub.add_mig(gpu, 0, "3g.40gb")
    agent = subprocess.Popen(
        [
            sys.executable, "-m", "longpole.cli", "agent", "--server", "http://127.0.0.1:9",
            "--otlp-http-port", "0", "--otlp-grpc-port", "0",
            "--data-dir", str(directory / name.replace(" ", "-")), *options,
        ],
        env={**os.environ, **stub.environment},
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        time.sleep(_WARM_S)
        process = psutil.Process(agent.pid)
        before = process.cpu_times()
        time.sleep(seconds)
        after = process.cpu_times()
        spent_s = after.user + after.system - before.user - before.system
        resident_mib = process.memory_info().rss / (1 << 20)
        print(f"{name}: {spent_s / seconds:.2%} of a core, {resident_mib:.0f} MiB", flush=True)
    finally:
        agent.terminate()
        agent.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=30)
    seconds = parser.parse_args().seconds
    with TemporaryDirectory() as directory:
        measure("no GPUs", Path(directory), seconds, "--no-nvml", "--no-ray")
        measure("8 H100", Path(directory), seconds)
        measure("8 A100", Path(directory), seconds)
        measure("8 H100 with MIG", Path(directory), seconds, divided=True)


if __name__ == "__main__":
    main()
