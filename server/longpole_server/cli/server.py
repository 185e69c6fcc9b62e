"""`longpole server`: the server alone."""

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Sequence

from longpole_server.cli.complaints import describe
from longpole_server.cli.serving import run_server
from longpole_server.config import Config, read_config
from longpole_server.errors import ConfigError


def main(arguments: Sequence[str]) -> int:
    """Serve until interrupted. Exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        config = read_config(Config, "server", arguments, os.environ)
    except ConfigError as error:
        print(f"longpole server: {describe(error)}", file=sys.stderr)
        return 2
    except SystemExit as end:
        return int(end.code or 0)
    return run_server(config, _alone)


@contextlib.asynccontextmanager
async def _alone(_: str, __: str) -> AsyncGenerator[None]:
    yield
