"""Sockets: bound before anything else is opened, so that a taken port costs nothing."""

import errno
import socket

from longpole.patience import notice_vanished_peers
from longpole_server.errors import ServerError

_BACKLOG = 2_048


class PortTakenError(ServerError):
    """Another process listens there."""

    code = "port_taken"


def bind(host: str, port: int) -> socket.socket:
    """Bind a TCP socket; port 0 takes a free one.

    Raises:
        PortTakenError: The port is in use.
        ServerError: The address cannot be listened on.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ServerError(f"{host} is no address of this machine: {error.strerror}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        notice_vanished_peers(listener)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} on {host} is in use",
                hint="another longpole may be running; choose another with --port",
            ) from error
        raise ServerError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    listener.set_inheritable(False)
    return listener


def port_of(listener: socket.socket) -> int:
    """Return the port a socket is bound to."""
    return int(listener.getsockname()[1])


def local_url(host: str, port: int, *, is_encrypted: bool = False) -> str:
    """Return the address under which this machine reaches a listener."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared with, not bound
    if ":" in reachable and not reachable.startswith("["):
        reachable = f"[{reachable}]"
    scheme = "https" if is_encrypted else "http"
    return f"{scheme}://{reachable}:{port}"
