"""One request in the journal: what it says, who sent it under which id, and when it came.

version u8 | signal u8 | received ns i64 | length of the batch id u16 | batch id | body
"""

import struct
from dataclasses import dataclass
from typing import cast

from longpole_server.errors import BadRequestError
from longpole_server.ingest.signals import SIGNALS, Signal

_HEADER = struct.Struct("<BBqH")
_VERSION = 1
MAX_BATCH_ID_CHARS = 256


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A request as accepted.

    Attributes:
        received_ns: When it came, UTC nanoseconds.
        batch_id: Id given by its first durable owner, None when the sender has none.
        body: The request in protobuf.
    """

    signal: Signal
    received_ns: int
    batch_id: str | None
    body: bytes


def encode_entry(entry: JournalEntry) -> bytes:
    """Return the bytes of an entry."""
    batch_id = (entry.batch_id or "").encode()
    header = _HEADER.pack(_VERSION, SIGNALS.index(entry.signal), entry.received_ns, len(batch_id))
    return b"".join((header, batch_id, entry.body))


def decode_entry(payload: bytes) -> JournalEntry:
    """Read the bytes of an entry back.

    Raises:
        ValueError: Another program wrote them.
    """
    if len(payload) < _HEADER.size:
        raise ValueError("journal entry is too short")
    version, signal, received_ns, id_bytes = cast(
        "tuple[int, int, int, int]", _HEADER.unpack_from(payload)
    )
    if version != _VERSION or signal >= len(SIGNALS):
        raise ValueError(f"journal entry of unknown kind {version}/{signal}")
    start = _HEADER.size + id_bytes
    batch_id = payload[_HEADER.size : start].decode()
    return JournalEntry(SIGNALS[signal], received_ns, batch_id or None, payload[start:])


def check_batch_id(batch_id: str | None) -> str | None:
    """Return the id as it may be stored; an empty one counts as none.

    Raises:
        BadRequestError: It is too long or holds characters that do not print.
    """
    if not batch_id:
        return None
    if len(batch_id) > MAX_BATCH_ID_CHARS or not batch_id.isprintable():
        raise BadRequestError(
            f"The batch id must be at most {MAX_BATCH_ID_CHARS} printable characters."
        )
    return batch_id
