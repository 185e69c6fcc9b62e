"""Sessions that their owners ended: a copy of the cookie is worth nothing afterwards."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from longpole_server.errors import ConfigError, StoreError

_logger = logging.getLogger(__name__)

_MAX_KEPT = 100_000


class EndsElsewhere(Protocol):
    """What servers that take over from each other know of ended sessions.

    Raises:
        StoreError: It cannot be read or written.
    """

    def add(self, session_id: str, max_age_s: int) -> None:
        """Write down that a session ended which was good for so many seconds at most."""
        ...

    def list_ids(self, max_age_s: int) -> Collection[str]:
        """Return the sessions that ended within so many seconds."""
        ...


class EndedSessions:
    """Remembers which sessions ended before their time, through restarts. Thread-safe.

    Bounded: of more than 100,000 the one that ended first is forgotten.

    Args:
        file: One line for each: its id, and until when it would have been good. None: in memory.
        max_age_s: How long a session would be good at most.

    Raises:
        ConfigError: The file cannot be read or written.
    """

    def __init__(
        self, file: Path | None, max_age_s: int, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._file = file
        self._max_age_s = max_age_s
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._until_s: dict[str, float] = {}
        self._elsewhere: EndsElsewhere | None = None
        if file is not None:
            self._read(file)

    def share(self, elsewhere: EndsElsewhere) -> None:
        """Take over what another server knows, and tell the next one of what ends here.

        Raises:
            StoreError: It cannot be read.
        """
        self._learn(elsewhere.list_ids(self._max_age_s))
        self._elsewhere = elsewhere

    def learn_of(self, elsewhere: EndsElsewhere, since_s: int) -> None:
        """Learn which sessions ended at another server within so many seconds.

        Raises:
            StoreError: It cannot be read.
        """
        self._learn(elsewhere.list_ids(since_s))

    def _learn(self, known: Collection[str]) -> None:
        until_s = self._clock_s() + self._max_age_s
        with self._lock:
            for session_id in known:
                self._until_s.setdefault(session_id, until_s)
            while len(self._until_s) > _MAX_KEPT:
                del self._until_s[next(iter(self._until_s))]

    def add(self, session_id: str) -> None:
        """Remember that a session ended now."""
        self._remember(session_id)
        if self._elsewhere is None:
            return
        try:
            self._elsewhere.add(session_id, self._max_age_s)
        except StoreError as error:
            _logger.error(
                "a server that takes over will not know of a session that ended: %s", error
            )

    def _remember(self, session_id: str) -> None:
        until_s = self._clock_s() + self._max_age_s
        with self._lock:
            self._until_s[session_id] = until_s
            if len(self._until_s) > _MAX_KEPT:
                del self._until_s[next(iter(self._until_s))]
            if self._file is None:
                return
            try:
                with self._file.open("a", encoding="ascii") as opened:
                    opened.write(f"{session_id} {until_s:.0f}\n")
            except OSError as error:
                _logger.error(
                    "a session that ended is known until the next start alone: %s: %s",
                    self._file,
                    error.strerror,
                )

    def __contains__(self, session_id: str) -> bool:
        """Tell whether a session ended."""
        with self._lock:
            return session_id in self._until_s

    def _read(self, file: Path) -> None:
        """Read what is still of use, and write that alone."""
        now_s = self._clock_s()
        try:
            lines = file.read_text("ascii", "replace").splitlines() if file.exists() else []
            for line in lines[-_MAX_KEPT:]:
                session_id, _, text = line.partition(" ")
                if text.isdecimal() and int(text[:15]) > now_s:
                    self._until_s[session_id] = float(text[:15])
            file.touch(mode=0o600)
            kept = "".join(f"{each} {until:.0f}\n" for each, until in self._until_s.items())
            if len(lines) > len(self._until_s):
                file.write_text(kept, "ascii")
        except OSError as error:
            raise ConfigError(f"cannot read or write {file}: {error.strerror}") from error
