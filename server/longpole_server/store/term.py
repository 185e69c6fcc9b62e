"""The right to write into a database that several servers share: one at a time has it.

Servers agree through the database alone. Terms are numbered; a term is taken by the first insert
with its token, which the database decides, and holds as long as its holder renews it. Whoever
could not renew in time takes the next term, like everybody else, or has lost.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from longpole_server.errors import StoreError
from longpole_server.store.client import Client

_log = logging.getLogger(__name__)

# Seconds of the database's clock after which a term that was not renewed is over.
TERM_S = 30.0
# The holder counts a little less, by its own clock, from before it asked.
_MARGIN_S = 5.0
_RENEW_EVERY_S = 8.0
_RETRY_S = 1.0

_NEWEST = """
SELECT number, holder, released,
    (toUnixTimestamp64Milli(now64(3)) - toUnixTimestamp64Milli(renewed_ns)) / 1000 AS age_s
FROM writer_terms
ORDER BY number DESC, released DESC, renewed_ns DESC
LIMIT 1
"""
_HOLDER = "SELECT any(holder) AS holder FROM writer_terms WHERE number = {number:UInt64}"


@dataclass(frozen=True, slots=True)
class _Term:
    """The newest term as the database has it."""

    number: int
    holder: str
    is_over: bool


class WriterTerm:
    """Takes the right to write, keeps it, and gives it back. Thread-safe.

    Args:
        client: May write; this object alone uses it.
        holder: Names this server, for people too; no other has the same.
        on_lost: Called once when another server has the right now.
        term_s: Seconds that a term lasts without being renewed.
        now_s: Monotonic clock, seconds.
    """

    def __init__(
        self,
        client: Client,
        holder: str,
        on_lost: Callable[[], object],
        term_s: float = TERM_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._holder = holder
        self._on_lost = on_lost
        self._term_s = term_s
        self._now_s = now_s
        self._number = 0
        self._valid_until_s = -1.0
        self._is_lost = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="writer-term", daemon=True)

    @property
    def is_held(self) -> bool:
        """Whether this server may write now."""
        return not self._is_lost and self._now_s() < self._valid_until_s

    @property
    def is_lost(self) -> bool:
        """Whether another server took the right."""
        return self._is_lost

    def check(self) -> None:
        """Make sure that this server may write.

        Raises:
            StoreError: It may not, or does not know; what is to be written waits.
        """
        if not self.is_held:
            raise StoreError("Another server may be the one that writes now.")

    def try_take(self) -> bool:
        """Take the right if nobody has it; tell whether this server has it now.

        Raises:
            StoreError: The database failed.
        """
        started_s = self._now_s()
        newest = self._find_newest()
        if newest is not None and not newest.is_over:
            return False
        number = 1 if newest is None else newest.number + 1
        self._write(number, f"writer-term/{number}")
        answer = self._client.query(_HOLDER, {"number": number}).to_pylist()
        if answer[0]["holder"] != self._holder:
            return False
        self._number, self._valid_until_s = number, self._end_of(started_s)
        return True

    def wait_and_take(self) -> None:
        """Return when this server has the right; until then say who has it.

        Raises:
            StoreError: The database failed.
        """
        said = ""
        while not self.try_take():
            newest = self._find_newest()
            if newest is not None and newest.holder != said:
                said = newest.holder
                _log.warning("waiting: %s writes into this database; one server does", said)
            time.sleep(_RETRY_S)

    def start(self) -> None:
        """Keep the right from now on."""
        self._thread.start()

    def close(self) -> None:
        """Give the right back, so that the next server need not wait."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.is_held:
            try:
                self._write(self._number, os.urandom(16).hex(), released=True)
            except StoreError as error:
                _log.warning("the right to write is not given back, it ends by itself: %s", error)
        self._valid_until_s = -1.0
        self._client.close()

    def renew(self) -> None:
        """Make the term last longer, or take the next one when it is over.

        Raises:
            StoreError: The database failed; call again.
        """
        started_s = self._now_s()
        if not self.is_held:
            self._retake()
            return
        newest = self._find_newest()
        if newest is None or newest.number == self._number:
            self._write(self._number, os.urandom(16).hex())
            self._valid_until_s = self._end_of(started_s)
        else:
            self._lose(newest.holder)

    def _retake(self) -> None:
        """Go on after a time in which nobody could renew: whoever comes first has the right."""
        if self.try_take():
            return
        newest = self._find_newest()
        if newest is not None and newest.number > self._number and not newest.is_over:
            self._lose(newest.holder)

    def _lose(self, holder: str) -> None:
        self._is_lost = True
        _log.error("%s writes into this database now: this server ends", holder)
        self._on_lost()

    def _keep(self) -> None:
        wait_s = _RENEW_EVERY_S
        while not self._stopping.wait(wait_s) and not self._is_lost:
            wait_s = _RENEW_EVERY_S if self._try_renew() else _RETRY_S

    def _try_renew(self) -> bool:
        try:
            self.renew()
        except StoreError as error:
            _log.warning("the right to write is not renewed: %s", error)
            return False
        return self.is_held

    def _end_of(self, started_s: float) -> float:
        return started_s + self._term_s - min(_MARGIN_S, self._term_s / 4)

    def _find_newest(self) -> _Term | None:
        rows = self._client.query(_NEWEST).to_pylist()
        if not rows:
            return None
        row = rows[0]
        is_over = bool(row["released"]) or float(row["age_s"]) > self._term_s
        return _Term(int(row["number"]), str(row["holder"]), is_over)

    def _write(self, number: int, token: str, *, released: bool = False) -> None:
        row = pa.table(
            {
                "number": pa.array([number], pa.uint64()),
                "holder": [self._holder],
                "released": [released],
            }
        )
        self._client.insert("writer_terms", row, token)
