"""Of several servers on one external database one writes: here that one is found out."""

import os
import secrets
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from longpole_server.config import Config
from longpole_server.store import open_store
from longpole_server.store.client import WRITE_SETTINGS
from longpole_server.store.location import locate_store
from longpole_server.store.term import WriterTerm


@dataclass(frozen=True, slots=True)
class RightToWrite:
    """The right of this server to write.

    Attributes:
        check: Raises `StoreError` while this server may not write; None where it always may.
        is_lost: Whether another server has the right now, so that this one must end.
    """

    check: Callable[[], None] | None
    is_lost: Callable[[], bool]


@contextmanager
def hold_right_to_write(config: Config) -> Generator[RightToWrite]:
    """Wait until this server is the one that writes, and stay it for the block.

    An embedded store has a lock of its own: nothing is waited for. When another server takes the
    right, because this one could not renew it for long, this process is told to terminate.

    Raises:
        StoreError: The database cannot be opened.
    """
    if config.clickhouse_url is None:
        yield RightToWrite(None, lambda: False)
        return
    with ExitStack() as opened:
        store = open_store(locate_store(config))
        opened.callback(store.close)
        holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        client = store.new_limited_client(WRITE_SETTINGS)
        term = WriterTerm(client, holder, lambda: os.kill(os.getpid(), signal.SIGTERM))
        opened.callback(term.close)
        term.wait_and_take()
        term.start()
        yield RightToWrite(term.check, lambda: term.is_lost)
