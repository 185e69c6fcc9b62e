"""Which batches the database has, whichever server took them in."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Sequence

import pyarrow as pa

from longpole_server.store.client import Client

# Ids in one question: they travel in the address of the request.
_MAX_IDS = 200
_KNOWN = """
SELECT DISTINCT batch_id FROM stored_batches
WHERE batch_id IN {ids:Array(String)} AND token != {token:String}
"""


class StoredBatches:
    """Claims batches for an insert before it is made. Called by the one server that writes.

    Args:
        client: May write; this object alone uses it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def claim(self, batch_ids: Sequence[str], token: str) -> set[str]:
        """Claim batches for the insert of a token; return those that another insert has.

        The same call again, after a crash too, claims the same.

        Raises:
            StoreError: The database failed; call again.
        """
        taken: set[str] = set()
        for at in range(0, len(batch_ids), _MAX_IDS):
            some = list(batch_ids[at : at + _MAX_IDS])
            answer = self._client.query(_KNOWN, {"ids": some, "token": token})
            taken.update(str(value) for value in answer.column(0).to_pylist())
        ours = [batch_id for batch_id in dict.fromkeys(batch_ids) if batch_id not in taken]
        if ours:
            rows = pa.table({"batch_id": ours, "token": [token] * len(ours)})
            self._client.insert("stored_batches", rows, f"{token}/stored_batches")
        return taken

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
