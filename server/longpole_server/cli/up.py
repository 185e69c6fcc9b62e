"""`longpole up`: the server with its local agent, and a simulated run when asked."""

import contextlib
import dataclasses
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence

from longpole.output import announce
from longpole_server.cli.children import Child, supervise
from longpole_server.cli.complaints import describe
from longpole_server.cli.serving import Companions, run_server
from longpole_server.config import UpConfig, read_config
from longpole_server.errors import ConfigError

# Options of the server that an agent would read as its own.
_OWN_VARIABLES = frozenset(
    "LONGPOLE_" + option.name.upper() for option in dataclasses.fields(UpConfig)
)


def main(arguments: Sequence[str]) -> int:
    """Serve until interrupted. Exit status: 0 done, 1 failed, 2 bad arguments."""
    try:
        config = read_config(UpConfig, "up", arguments, os.environ)
    except ConfigError as error:
        print(f"longpole up: {describe(error)}", file=sys.stderr)
        return 2
    except SystemExit as end:
        return int(end.code or 0)
    if config.is_guarded and config.token is None:
        # The agent beside the server needs one; nobody else learns it.
        config = dataclasses.replace(config, token=secrets.token_urlsafe(32))
    # The standard ports belong to the agent where one runs.
    server = config if config.no_agent else dataclasses.replace(config, no_otlp=True)
    return run_server(server, _companions(config, os.environ))


def make_children(
    config: UpConfig, url: str, environ: Mapping[str, str], shown_url: str = ""
) -> list[Child]:
    """Return the programs that run beside the server, in the order in which they start.

    Args:
        config: Of the server.
        url: Where they reach it.
        environ: What they inherit from.
        shown_url: Where people reach it, if elsewhere.
    """
    environment = {k: v for k, v in environ.items() if k not in _OWN_VARIABLES}
    if config.token is not None:
        environment["LONGPOLE_TOKEN"] = config.token
    command = (sys.executable, "-m", "longpole.cli")
    children: list[Child] = []
    if not config.no_agent:
        ports = (
            ("--no-otlp",)
            if config.no_otlp
            else (
                f"--otlp-http-port={config.otlp_http_port}",
                f"--otlp-grpc-port={config.otlp_grpc_port}",
            )
        )
        data_dir = f"--data-dir={config.data_dir / 'agent'}"
        log_format = f"--log-format={config.log_format}"
        children.append(
            Child(
                "agent",
                (*command, "agent", f"--server={url}", data_dir, *ports, log_format),
                environment,
            )
        )
    if config.demo:
        children.append(
            Child(
                "demo",
                (*command, "demo", f"--server={url}", f"--public-url={shown_url or url}"),
                environment,
                restarts=False,
            )
        )
    return children


def _companions(config: UpConfig, environ: Mapping[str, str]) -> Companions:
    @contextlib.asynccontextmanager
    async def run_beside(url: str, shown_url: str) -> AsyncGenerator[None]:
        if config.demo:
            announce("The simulated run shows its first step within seconds.")
        async with contextlib.AsyncExitStack() as running:
            for child in make_children(config, url, environ, shown_url):
                await running.enter_async_context(supervise(child))
            yield

    return run_beside
