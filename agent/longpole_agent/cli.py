"""`longpole agent`."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from longpole_agent.agent import Agent
from longpole_agent.config import Config, parse_config
from longpole_agent.errors import AgentError, DiskError


def main(arguments: Sequence[str]) -> int:
    """Run the agent until it is interrupted; return the exit status."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    # It speaks of its own start and end; the agent does that.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        config = parse_config(arguments, os.environ)
        asyncio.run(_run(config))
    except AgentError as error:
        print(f"longpole agent: {error}", file=sys.stderr)
        return 1 if isinstance(error, DiskError) else 2
    except SystemExit as done:
        return int(done.code or 0)
    return 0


async def _run(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await Agent(config).run(stop)
