"""Which sessions of people ended, for the server that takes over: beside the batches it knows."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import threading

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
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()

    def add(self, session_id: str) -> None:
        """Write down that a session ended.

        Raises:
            StoreError: The database failed.
        """
        name = f"{_PREFIX}/{session_id}"
        rows = pa.table({"batch_id": [name], "token": [_MARK]})
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
