"""`longpole doctor`: looks at this machine and the server, and says what to do."""

import argparse
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import platformdirs

from longpole import __version__
from longpole.options import OptionParser
from longpole_server.cli.client import DEFAULT_SERVER, ServerClient, is_address, read_token
from longpole_server.errors import ConfigError, NotFoundError, ServerError
from longpole_server.ingest.normalize.attributes import LEAST_NOW_NS

Verdict = Literal["ok", "note", "bad"]

_LOW_DISK_BYTES = 5 << 30
_SILENT_AFTER_S = 30
_MAX_SKEW_S = 2.0
_OTLP_PORTS = (4317, 4318)
_LIVE_STATES = frozenset({"live", "stalled"})
_MAX_NAMES = 5
_MAX_TABLES = 5
_PACKAGES = ("chdb", "clickhouse-connect", "pyarrow", "dash", "nvidia-ml-py")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: how it is, and what to do when it is not well."""

    verdict: Verdict
    subject: str
    text: str
    advice: str = ""


def main(arguments: Sequence[str]) -> int:
    """Look and report. Exit status: 0 nothing is bad, 1 something is, 2 bad arguments."""
    options = _parse(arguments, os.environ)
    try:
        client = ServerClient(options.server, read_token())
    except ConfigError as error:
        print(f"longpole doctor: {error.message}", file=sys.stderr)
        return 2
    num_bad = 0
    for check in examine(client, options.server, Path(options.data_dir), time.time_ns):
        num_bad += check.verdict == "bad"
        print(render(check), flush=True)
    print("Something needs your hand." if num_bad else "Nothing is wrong.")
    return 1 if num_bad else 0


def examine(
    client: ServerClient, address: str, data_dir: Path, clock_ns: Callable[[], int]
) -> Iterator[Check]:
    """Look at one thing after the other.

    Args:
        client: Of the server.
        address: Its address, for people.
        data_dir: Where a server of this machine keeps its data.
        clock_ns: UTC nanoseconds.
    """
    yield Check("ok", "version", f"Longpole {__version__}, {_describe_packages()}")
    yield from _examine_data_dir(data_dir)
    yield from _examine_server(client, address, clock_ns)
    for port in _OTLP_PORTS:
        yield _examine_port(port)


def render(check: Check) -> str:
    """Return a check as one line, and what to do as another."""
    line = f"{check.verdict:<5}{check.subject:<10}{check.text}"
    return f"{line}\n     {'':<10}-> {check.advice}" if check.advice else line


def _parse(arguments: Sequence[str], environ: Mapping[str, str]) -> argparse.Namespace:
    parser = OptionParser(
        prog="longpole doctor",
        description="Look at this machine and the server, and say what to do.",
        epilog="Every option --a-b is also LONGPOLE_A_B. Token: LONGPOLE_TOKEN, or the file that "
        "LONGPOLE_TOKEN_FILE names.",
    )
    parser.add_argument(
        "--server",
        type=_server,
        default=DEFAULT_SERVER,
        metavar="URL",
        help=f"where the server is (default {DEFAULT_SERVER})",
    )
    data_dir = platformdirs.user_data_dir("longpole", appauthor=False)
    parser.add_argument(
        "--data-dir", default=data_dir, metavar="DIR", help=f"of a server here (default {data_dir})"
    )
    return parser.parse(arguments, environ)


def _server(text: str) -> str:
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address such as {DEFAULT_SERVER}")
    return text


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
    text = f"{data_dir}, {_size(free)} free on its disk"
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


def _examine_server(
    client: ServerClient, address: str, clock_ns: Callable[[], int]
) -> Iterator[Check]:
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
    yield _compare_versions(address, str(health.get("version")))
    yield from _try_to("ready", lambda: _examine_ready(client))
    yield from _try_to("storage", lambda: _examine_storage(client))
    yield from _examine_clock(clock_ns())
    yield from _try_to("agents", lambda: _examine_agents(client, clock_ns()))


def _try_to(subject: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from list(look())
    except NotFoundError as error:
        yield Check("note", subject, f"this server does not say: {error.message}")
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


def _compare_versions(address: str, version: str) -> Check:
    text = f"{address} answers, Longpole {version}"
    if version == __version__:
        return Check("ok", "server", text)
    return Check("note", "server", text, f"this machine has {__version__}: upgrade the older one")


def _examine_ready(client: ServerClient) -> Iterator[Check]:
    # A server that is not ready answers 503, which the client raises.
    parts = client.get("/ready").get("parts", {})
    yield Check("ok", "ready", ", ".join(map(str, parts)) + " work")


def _examine_storage(client: ServerClient) -> Iterator[Check]:
    storage = client.get("/storage")
    tables: list[dict[str, Any]] = storage["tables"]
    largest = ", ".join(
        f"{table['table']} {_size(table['bytes_on_disk'])}" for table in tables[:_MAX_TABLES]
    )
    more = f", {len(tables) - _MAX_TABLES} more" if len(tables) > _MAX_TABLES else ""
    held = f"{largest}{more}" if largest else "no rows yet"
    text = f"{_size(storage['bytes_on_disk'])} in {storage['place']} ({held})"
    free = storage["free_bytes"]
    if free is not None and free < max(_LOW_DISK_BYTES, storage["bytes_on_disk"] // 10):
        yield Check(
            "bad",
            "storage",
            f"{text}, only {_size(free)} free",
            "make room, or keep rows for less time: --retention",
        )
    else:
        yield Check("ok", "storage", text)


def _examine_agents(client: ServerClient, now_ns: int) -> Iterator[Check]:
    nodes: list[dict[str, Any]] = client.get("/nodes")["nodes"]
    if not nodes:
        yield Check(
            "note",
            "agents",
            "no node was heard of in the last day",
            "run `longpole agent --server URL` on every GPU node",
        )
        return
    live = {run["run_id"] for run in client.get("/runs")["runs"] if run["state"] in _LIVE_STATES}
    ages_s = {str(node["host"]): (now_ns - node["seen_ns"]) / 1e9 for node in nodes}
    at_rest = [
        node["host"]
        for node in nodes
        if ages_s[node["host"]] > _SILENT_AFTER_S and not live.intersection(node["runs"])
    ]
    for host, age_s in ages_s.items():
        if host not in at_rest:
            yield _judge_agent(host, age_s)
    if at_rest:
        yield _describe_at_rest(at_rest, min(ages_s[host] for host in at_rest))


def _describe_at_rest(hosts: Sequence[str], age_s: float) -> Check:
    """Name nodes that are silent and not missed, such as those of a demo that ended."""
    names = ", ".join(hosts[:_MAX_NAMES]) + (" ..." if len(hosts) > _MAX_NAMES else "")
    return Check(
        "note",
        "at rest",
        f"{names}: nothing for {_span(age_s)}, and no live run is there",
        "nothing to do, unless an agent should be running there",
    )


def _judge_agent(host: str, age_s: float) -> Check:
    if age_s < -_MAX_SKEW_S:
        return Check(
            "bad",
            "clock",
            f"{host} is {-age_s:.0f} s ahead of this machine",
            "synchronise both clocks: chrony or systemd-timesyncd",
        )
    if age_s > _SILENT_AFTER_S:
        return Check(
            "bad",
            "agent",
            f"{host} was last heard {_span(age_s)} ago by its clock, amid a live run",
            f"look at the agent on {host}, at its way to the server, and at its clock",
        )
    return Check("ok", "agent", f"{host} was heard {max(0.0, age_s):.0f} s ago")


def _examine_port(port: int) -> Check:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        is_open = probe.connect_ex(("127.0.0.1", port)) == 0
    subject = f"port {port}"
    if is_open:
        return Check("ok", subject, "somebody listens: trainers on this machine reach it")
    return Check(
        "note", subject, "nobody listens on this machine", "trainers here need an agent or a server"
    )


def _size(num_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def _span(seconds: float) -> str:
    for unit, length_s in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
