"""`longpole doctor`: looks at this machine and the server, and says what to do."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import platformdirs

from longpole import __version__
from longpole.options import OptionParser
from longpole_server.cli.agent_checks import examine_agents, examine_port
from longpole_server.cli.checks import Check, Server, describe_size
from longpole_server.cli.client import DEFAULT_SERVER, ServerClient, parse_address, read_token
from longpole_server.cli.driver_checks import examine_driver
from longpole_server.cli.ingest_checks import (
    examine_alerts,
    examine_lag,
    examine_writer,
    measure_delay_s,
)
from longpole_server.errors import ConfigError, ForbiddenError, NotFoundError, ServerError
from longpole_server.ingest.normalize.attributes import LEAST_NOW_NS

_LOW_DISK_BYTES = 5 << 30
_OTLP_GRPC_PORT, _OTLP_HTTP_PORT = 4317, 4318
_MAX_TABLES = 5
_ROLES = {
    "all": "",
    "ingest": ", role ingest: it takes data and has no pages",
    "web": ", role web: it shows what another server writes",
}
_PACKAGES = ("chdb", "clickhouse-connect", "pyarrow", "dash", "nvidia-ml-py")


def main(arguments: Sequence[str]) -> int:
    """Look and report. Exit status: 0 nothing is bad, 1 something is, 2 bad arguments."""
    options = _parse(arguments, os.environ)
    try:
        client = ServerClient(options.server, read_token())
    except ConfigError as error:
        print(f"longpole doctor: {error.message}", file=sys.stderr)
        return 2
    num_bad = 0
    ports = (options.otlp_grpc_port, options.otlp_http_port)
    for check in examine(client, options.server, Path(options.data_dir), time.time_ns, ports):
        num_bad += check.verdict == "bad"
        print(render(check), flush=True)
    print("Something needs your hand." if num_bad else "Nothing is wrong.")
    return 1 if num_bad else 0


def examine(
    client: Server,
    address: str,
    data_dir: Path,
    clock_ns: Callable[[], int],
    ports: Sequence[int] = (),
) -> Iterator[Check]:
    """Look at one thing after the other.

    Args:
        client: Of the server.
        address: Its address, for people.
        data_dir: Where a server of this machine keeps its data.
        clock_ns: UTC nanoseconds.
        ports: Where trainers of this machine find an agent or a server.
    """
    yield Check("ok", "version", f"Longpole {__version__}, {_describe_packages()}")
    yield from _examine_data_dir(data_dir)
    yield from _examine_server(client, address, clock_ns)
    yield examine_driver()
    for port in ports:
        yield from examine_port(port)


def render(check: Check) -> str:
    """Return a check as one line, and what to do as another."""
    line = f"{check.verdict:<4} {check.subject:<10} {check.text}"
    return f"{line}\n{'':<16}-> {check.advice}" if check.advice else line


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole doctor",
        description="Look at this machine and the server, and say what to do.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument(
        "--server",
        type=parse_address,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    data_dir = platformdirs.user_data_dir("longpole", appauthor=False)
    parser.add_argument(
        "--data-dir", default=data_dir, metavar="DIR", help=f"of a server here (default {data_dir})"
    )
    for name, port in (("grpc", _OTLP_GRPC_PORT), ("http", _OTLP_HTTP_PORT)):
        parser.add_argument(
            f"--otlp-{name}-port",
            type=int,
            default=port,
            metavar="PORT",
            help=f"of the agent, or the server, of this machine (default {port})",
        )
    return parser.parse(arguments, environ)


def _describe_packages() -> str:
    installed = {
        distribution.name: distribution.version for distribution in metadata.distributions()
    }
    return ", ".join(
        f"{name} {installed[name]}" if name in installed else f"no {name}" for name in _PACKAGES
    )


def _examine_data_dir(data_dir: Path) -> Iterator[Check]:
    if not data_dir.exists():
        yield Check("note", "data", f"{data_dir} does not exist: no server has run here")
        return
    if not os.access(data_dir, os.W_OK | os.X_OK):
        yield Check(
            "bad", "data", f"{data_dir} cannot be written", "give it to the server's user: chown"
        )
        return
    free = shutil.disk_usage(data_dir).free
    text = f"{data_dir}, {describe_size(free)} free on its disk"
    if free < _LOW_DISK_BYTES:
        yield Check("bad", "disk", text, "make room, or keep rows for less time: --retention")
    else:
        yield Check("ok", "disk", text)
    holder = _read_holder(data_dir / "store" / "store.lock")
    if holder is not None:
        yield Check("ok", "store", f"process {holder} has it open")
    else:
        yield Check("note", "store", "no server of this machine has it open")


def _read_holder(lock: Path) -> str | None:
    """Return the process that holds a store, as it wrote its number into the lock file."""
    try:
        number = lock.read_text().strip()
    except OSError:
        return None
    return number if number and Path(f"/proc/{number}").exists() else None


def _examine_server(client: Server, address: str, clock_ns: Callable[[], int]) -> Iterator[Check]:
    try:
        health = client.get("/health")
    except ServerError as error:
        yield Check(
            "bad",
            "server",
            error.message,
            "start it by `longpole up` or `longpole server`, or name it by --server",
        )
        return
    # Servers before there were roles do everything.
    role = str(health.get("role", "all"))
    yield _compare_versions(address, str(health.get("version")), role)
    yield from _try_to("ready", lambda: _examine_ready(client))
    yield from _try_to("storage", lambda: _examine_storage(client))
    yield from _examine_clock(clock_ns())
    figures: dict[str, float] = {}
    yield from _try_to("lag", lambda: _examine_figures(client, role, figures))
    delay_s = measure_delay_s(figures)
    yield from _try_to("agents", lambda: examine_agents(client, clock_ns(), delay_s))
    yield from _try_to("alerts", lambda: examine_alerts(client))


def _examine_figures(client: Server, role: str, figures: dict[str, float]) -> Iterator[Check]:
    """Look at what the server says of itself, and leave it for what is looked at next."""
    figures.update(client.get_metrics())
    yield from examine_writer(figures) if role == "web" else examine_lag(figures)


def _try_to(subject: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from list(look())
    except NotFoundError as error:
        yield Check("note", subject, f"this server does not say: {error.message}")
    except ForbiddenError as error:
        yield Check(
            "note",
            subject,
            error.message,
            "a viewer's token tells it: `longpole access create-token NAME --role viewer`",
        )
    except ServerError as error:
        unauthorized = "token" in error.message
        advice = "set LONGPOLE_TOKEN to the server's token" if unauthorized else error.hint
        yield Check("bad", subject, error.message, advice)


def _examine_clock(now_ns: int) -> Iterator[Check]:
    if now_ns < LEAST_NOW_NS:
        date = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).date()
        yield Check(
            "bad",
            "clock",
            f"this machine says that it is {date}, which is before this program was made",
            "set its clock: chrony or systemd-timesyncd",
        )


def _compare_versions(address: str, version: str, role: str) -> Check:
    text = f"{address} answers, Longpole {version}{_ROLES.get(role, f', role {role}')}"
    if version == __version__:
        return Check("ok", "server", text)
    return Check("note", "server", text, f"this machine has {__version__}: upgrade the older one")


def _examine_ready(client: Server) -> Iterator[Check]:
    # A server that is not ready answers 503, which the client raises.
    parts = client.get("/ready").get("parts", {})
    yield Check("ok", "ready", ", ".join(map(str, parts)) + " work")


def _examine_storage(client: Server) -> Iterator[Check]:
    storage = client.get("/storage")
    tables: list[dict[str, Any]] = storage["tables"]
    largest = ", ".join(
        f"{table['table']} {describe_size(table['bytes_on_disk'])}"
        for table in tables[:_MAX_TABLES]
    )
    more = f", {len(tables) - _MAX_TABLES} more" if len(tables) > _MAX_TABLES else ""
    held = f"{largest}{more}" if largest else "no rows yet"
    text = f"{describe_size(storage['bytes_on_disk'])} in {storage['place']} ({held})"
    free = storage["free_bytes"]
    if free is not None and free < max(_LOW_DISK_BYTES, storage["bytes_on_disk"] // 10):
        yield Check(
            "bad",
            "storage",
            f"{text}, only {describe_size(free)} free",
            "make room, or keep rows for less time: --retention",
        )
    else:
        yield Check("ok", "storage", text)
