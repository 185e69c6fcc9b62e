"""Ports on which inference engines of this node listen, as the system's tables show them.

Only processes that say they are an engine are looked at: by the command they were started with, or
by the title that Ray gives its actors.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import psutil

from longpole_agent.targets import Target

JOB = "discovered"
_ENGINE = re.compile(
    r"(?:^|[\s/])vllm(?:\s+serve|\.entrypoints\.)|sglang\.launch_server|sglang[\w.]*\s+serve"
    r"|^ray::\S*(?:vLLM|SGLang)\w*(?:Server|Engine)",
    re.MULTILINE,
)
_PORT = re.compile(r"--port[\s=](\d{1,5})(?=\s|$)")
_ANYWHERE = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - what is compared, not bound
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Listener:
    """A port that a process listens on."""

    pid: int
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Tables:
    """What the system shows of processes and sockets.

    Attributes:
        list_listeners: Every listening TCP socket whose process can be seen.
        read_command: The command of a process in one line, "" when it cannot be read.
    """

    list_listeners: Callable[[], Sequence[Listener]]
    read_command: Callable[[int], str]


def find_engine_ports(tables: Tables) -> list[Target]:
    """Return the pages there may be: each port of a process that is an engine.

    Of a process that was told its port only that one is named. A port is one page, however many
    processes share its socket.
    """
    commands: dict[int, str] = {}
    found: dict[str, Target] = {}
    for listener in tables.list_listeners():
        command = commands.get(listener.pid)
        if command is None:
            command = commands[listener.pid] = tables.read_command(listener.pid)
        if _ENGINE.search(command) is None:
            continue
        told = _PORT.search(command)
        if told is not None and int(told[1]) != listener.port:
            continue
        target = Target(JOB, _name_page(listener))
        found.setdefault(target.address, target)
    return list(found.values())


def _name_page(listener: Listener) -> str:
    host = _LOOPBACK if listener.address in _ANYWHERE else listener.address
    return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"


def read_system_tables() -> Tables:
    """Return the tables of this node, as far as this user may read them."""
    return Tables(lambda: list(_list_listeners()), _read_command)


def _list_listeners() -> Iterator[Listener]:
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.pid and connection.laddr:
            address, port = connection.laddr
            yield Listener(connection.pid, address.removeprefix("::ffff:"), port)


def _read_command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return ""
