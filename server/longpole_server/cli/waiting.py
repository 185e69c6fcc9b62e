"""Waits for a store that other servers make, and answers meanwhile that it does."""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from longpole_server.api.waiting import create_waiting_app
from longpole_server.cli.http_serving import serving
from longpole_server.store import Missing, find_missing
from longpole_server.store.location import StoreConfig

_logger = logging.getLogger(__name__)
_RETRY_S = 1.0
# An operator who looks sees it, and a log of a day stays one.
_TELL_S = 60.0


async def wait_for_store(
    config: StoreConfig,
    listener: socket.socket,
    tls: ssl.SSLContext | None,
    stop: asyncio.Event,
    look: Callable[[StoreConfig], Missing | None] = find_missing,
) -> bool:
    """Wait until an external store can be read by this program, however long that takes.

    Args:
        config: Where it is.
        listener: Is answered at meanwhile, and stays open.
        tls: For the listener.
        stop: Ends the waiting, after the look that goes on.
        look: Looks once, for seconds at most.

    Returns:
        Whether the store is there; False when told to stop.

    Raises:
        StoreError: The database refuses this server, or was written by a newer program: waiting
            would not help.
    """
    waiting = Waiting()
    # A copy, since whoever serves closes its listener.
    async with serving(create_waiting_app(waiting.tell), listener.dup(), tls):
        while not stop.is_set():
            missing = await asyncio.to_thread(look, config)
            if missing is None:
                waiting.note_end()
                return True
            waiting.note(missing)
            with suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), _RETRY_S)
    return False


class Waiting:
    """What is waited for: said when it becomes something else, and each minute."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._missing: Missing | None = None
        self._since_s = self._told_s = clock_s()

    def tell(self) -> str:
        """For anybody: without the place of the database."""
        return "ClickHouse's first answer" if self._missing is None else self._missing.what

    def note(self, missing: Missing) -> None:
        """Take what is missing now."""
        is_news = self._missing is None or missing.what != self._missing.what
        self._missing = missing
        if not is_news and self._clock_s() < self._told_s + _TELL_S:
            return
        self._told_s = self._clock_s()
        _logger.warning(
            "waiting for the store since %d s: %s%s",
            self._told_s - self._since_s,
            missing.what,
            f" ({missing.detail})" if missing.detail else "",
        )

    def note_end(self) -> None:
        """Say that the store is there, to whom it was said that it was not."""
        if self._missing is not None:
            _logger.info("the store is there")
