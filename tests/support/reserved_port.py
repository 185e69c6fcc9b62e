"""A port where nobody listens."""

import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Generator[int]:
    """Yield a port of loopback that the system gives to nobody else while the block runs.

    Whoever connects to it is refused until a server of the test, and of no other, listens on it.
    """
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])
