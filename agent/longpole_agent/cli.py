"""`longpole agent`."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from longpole.log_lines import set_up_logging
from longpole_agent.agent import Agent
from longpole_agent.config import Config, parse_config
from longpole_agent.errors import AgentError, ConfigError, DiskError
from longpole_agent.identity import write_atomically
from longpole_agent.sources.nvml.comparison import (
    NothingToCompareError,
    compare,
    describe,
)
from longpole_agent.sources.nvml.recording import NothingToRecordError, record

_NVIDIA_SMI_S = 60.0


def main(arguments: Sequence[str]) -> int:
    """Run the agent until it is interrupted; return the exit status."""
    try:
        config = parse_config(arguments, os.environ)
        set_up_logging(config.log_format, sys.stderr)
        # It speaks of its own start and end; the agent does that.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        if config.record_nvml is not None:
            _record(config.record_nvml)
        elif config.compare_nvidia_smi:
            return _compare(config.compare_nvidia_smi)
        else:
            asyncio.run(_run(config))
    except AgentError as error:
        print(f"longpole agent: {error}", file=sys.stderr)
        return 1 if isinstance(error, DiskError) else 2
    except SystemExit as done:
        return int(done.code or 0)
    return 0


def _record(path: Path) -> None:
    try:
        write_atomically(path, json.dumps(record(), indent=1) + "\n")
    except NothingToRecordError as error:
        raise ConfigError(f"nothing to record: {error}") from error
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
    print(f"recorded what NVML answers: {path}")


def _compare(seconds: int) -> int:
    """Return 0 where both tell the same, 1 where they do not."""
    try:
        compared = compare(_ask_nvidia_smi, num_looks=seconds)
    except NothingToCompareError as error:
        raise ConfigError(f"nothing to compare: {error}") from error
    print("\n".join(describe(compared)))
    differing = sum(not each.is_alike for each in compared)
    print(f"{differing} of {len(compared)} values differ" if differing else "all values agree")
    return 1 if differing else 0


def _ask_nvidia_smi(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - its arguments are this program's own
            ["nvidia-smi", *words],  # noqa: S607 - whichever one the operator's shell finds
            capture_output=True,
            text=True,
            check=False,
            timeout=_NVIDIA_SMI_S,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"it does not answer within {_NVIDIA_SMI_S:.0f} s") from error
    if done.returncode:
        raise ValueError((done.stderr or done.stdout).strip())
    return done.stdout


async def _run(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await Agent(config).run(stop)
