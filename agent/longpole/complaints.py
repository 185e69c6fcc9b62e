"""Misuse and trouble: each kind is counted every time and logged once."""

import logging
import threading

_LOGGER = logging.getLogger("longpole")


class Complaints:
    """Counts by kind, with one warning line per kind and process.

    A trainer's log belongs to the trainer: a mistake in a loop of a million steps is one line.
    """

    def __init__(self, logger: logging.Logger = _LOGGER) -> None:
        self._logger = logger
        self._lock = threading.RLock()
        self._counts: dict[str, int] = {}

    def report(self, kind: str, message: str, *arguments: object) -> None:
        """Count one complaint of `kind`; log `message % arguments` if it is the first."""
        with self._lock:
            num_before = self._counts.get(kind, 0)
            self._counts[kind] = num_before + 1
        if num_before == 0:
            self._logger.warning("longpole: " + message, *arguments)

    def count(self) -> dict[str, int]:
        """Return the counts by kind."""
        with self._lock:
            return dict(self._counts)
