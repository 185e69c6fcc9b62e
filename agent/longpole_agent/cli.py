"""`longpole agent`."""

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from longpole.log_lines import set_up_logging
from longpole_agent.agent import Agent
from longpole_agent.config import Config, parse_config
from longpole_agent.errors import AgentError, ConfigError, DiskError
from longpole_agent.identity import write_atomically
from longpole_agent.sources.nvml.recording import NothingToRecordError, record


def main(arguments: Sequence[str]) -> int:
    """Run the agent until it is interrupted; return the exit status."""
    try:
        config = parse_config(arguments, os.environ)
        set_up_logging(config.log_format, sys.stderr)
        # It speaks of its own start and end; the agent does that.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        if config.record_nvml is not None:
            _record(config.record_nvml)
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


async def _run(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await Agent(config).run(stop)
