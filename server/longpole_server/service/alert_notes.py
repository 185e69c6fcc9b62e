"""What the store does not take of what was told: kept, and written once it does, in order."""

import logging
from collections import deque
from collections.abc import Callable

from longpole_server.errors import StoreError

_logger = logging.getLogger(__name__)

# A store that refuses for so long may refuse for the night: people are told all the same.
PATIENCE_S = 60.0
_MAX_NOTES = 10_000
_NS_PER_S = 1e9

Write = Callable[[], None]


class LateNotes:
    """Writes in order. Not thread-safe.

    Args:
        now_ns: Wall clock, UTC nanoseconds.
        patience_s: Seconds for which a store may refuse before others go on without it.
    """

    def __init__(self, now_ns: Callable[[], int], patience_s: float = PATIENCE_S) -> None:
        self._now_ns = now_ns
        self._patience_s = patience_s
        self._waiting: deque[Write] = deque(maxlen=_MAX_NOTES)
        self._refused_since_ns: int | None = None

    @property
    def num_waiting(self) -> int:
        """How many notes the store has not taken yet."""
        return len(self._waiting)

    def freeze(self, write: Write) -> None:
        """Write what is to be known before anything is done.

        Raises:
            StoreError: The store refuses it, and has not done so for long: nothing is to be done.
        """
        try:
            self.flush()
            write()
            self._refused_since_ns = None
        except StoreError:
            if not self._is_out_of_patience():
                raise
            self._waiting.append(write)

    def note(self, write: Write) -> None:
        """Write what was done.

        Raises:
            StoreError: The store refuses it; it is written later.
        """
        self._waiting.append(write)
        try:
            self.flush()
        except StoreError:
            if not self._is_out_of_patience():
                raise

    def retry(self) -> None:
        """Write what waits, as far as the store takes it."""
        try:
            self.flush()
        except StoreError as error:
            _logger.warning("%d notes wait for the store: %s", len(self._waiting), error.message)

    def flush(self) -> None:
        """Write what waits.

        Raises:
            StoreError: The store refuses it; what is left is written later.
        """
        while self._waiting:
            try:
                self._waiting[0]()
            except StoreError:
                self._is_out_of_patience()
                raise
            self._waiting.popleft()
            self._refused_since_ns = None

    def _is_out_of_patience(self) -> bool:
        now_ns = self._now_ns()
        since_ns = self._refused_since_ns
        # A clock that went back begins anew.
        if since_ns is None or since_ns > now_ns:
            self._refused_since_ns = since_ns = now_ns
        return now_ns - since_ns >= self._patience_s * _NS_PER_S
