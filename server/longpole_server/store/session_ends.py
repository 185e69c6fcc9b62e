"""Which sessions of people ended, for the server that takes over: beside the batches it knows."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import threading
import time
from collections.abc import Callable

import pyarrow as pa

from longpole_server.store.client import Client

# Ids of batches are chosen by who sends them, tokens of inserts are not.
_PREFIX = _MARK = "session-ended"
_LIST = """
SELECT DISTINCT batch_id FROM stored_batches
WHERE startsWith(batch_id, {prefix:String}) AND token = {token:String}
    AND stored_ns >= now64(9) - toIntervalSecond({max_age_s:UInt32})
"""


class SessionEnds:
    """Ends of sessions that servers on one database share. Thread-safe.

    Args:
        client: May write; this object alone uses it.
        keep_s: How long the database keeps batches, in seconds; None: for ever.
        now_ns: Wall clock, UTC nanoseconds.
    """

    def __init__(
        self,
        client: Client,
        keep_s: int | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._client = client
        self._keep_s = keep_s
        self._now_ns = now_ns
        self._lock = threading.Lock()

    def add(self, session_id: str, max_age_s: int) -> None:
        """Write down that a session ended which was good for so many seconds at most.

        Where batches are kept for less time than that it counts as stored so much later: a copy of
        the cookie must not outlive what says that it is worth nothing.

        Raises:
            StoreError: The database failed.
        """
        name = f"{_PREFIX}/{session_id}"
        lacking_s = 0 if self._keep_s is None else max(0, max_age_s - self._keep_s)
        stored_ns = pa.array([self._now_ns() + lacking_s * 10**9], pa.timestamp("ns", "UTC"))
        rows = pa.table({"batch_id": [name], "token": [_MARK], "stored_ns": stored_ns})
        with self._lock:
            self._client.insert("stored_batches", rows, f"{name}/stored_batches")

    def list_ids(self, max_age_s: int) -> list[str]:
        """Return the sessions that ended within so many seconds.

        Raises:
            StoreError: The database failed.
        """
        asked = {"prefix": f"{_PREFIX}/", "token": _MARK, "max_age_s": max_age_s}
        with self._lock:
            names = self._client.query(_LIST, asked).column(0).to_pylist()
        return [str(name).removeprefix(f"{_PREFIX}/") for name in names]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
