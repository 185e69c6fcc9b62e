"""Which part of the journal an insert holds, decided durably before its first try.

A retry after a crash must repeat exactly what was tried: a batch inserted as A and retried as
A+B under another token would be stored twice. So each range is written down first, and the
batch ids in it with it: the newest of them outlive the journal's own entries.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longpole.spool import Spool

_SEGMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FrozenRange:
    """Journal entries `first` to `last` (inclusive), inserted together under `token`."""

    first: int
    last: int
    token: str


class RangeLog:
    """Remembers the newest frozen range and the batch ids of the ranges before it.

    Args:
        directory: Its own directory; created when missing.
        max_bytes: Bound on disk; the oldest ranges are forgotten first.

    Raises:
        SpoolError: The directory cannot be used.
    """

    def __init__(self, directory: Path, max_bytes: int = 8 << 20) -> None:
        self._spool = Spool(directory, max_bytes=max_bytes, segment_bytes=_SEGMENT_BYTES)
        self._newest: FrozenRange | None = None
        # Of this process: even where damage took ranges from the record, no token comes twice.
        self._opened_id = os.urandom(8).hex()
        self._load()

    @property
    def newest(self) -> FrozenRange | None:
        """The range frozen last, done or not; None when there never was one.

        A journal that does not reach so far was damaged or replaced: what comes into it must get
        higher numbers, or it would be taken for what was inserted under this range's token.
        """
        return self._newest

    def read_batch_ids(self) -> Iterator[str]:
        """Return the batch ids on record, oldest first."""
        for record in self._spool:
            yield from json.loads(record.payload)["batch_ids"]

    def freeze(self, first: int, last: int, batch_ids: Iterable[str]) -> FrozenRange:
        """Write a range down durably and return it.

        Raises:
            SpoolError: The disk refused; the range must not be tried.
        """
        document = {
            "journal": self._opened_id,
            "first": first,
            "last": last,
            "batch_ids": list(batch_ids),
        }
        self._spool.append(json.dumps(document).encode())
        self._spool.sync()
        self._newest = _name(self._opened_id, first, last)
        return self._newest

    def close(self) -> None:
        """Close the file."""
        self._spool.close()

    def _load(self) -> None:
        newest: dict[str, Any] | None = None
        for record in self._spool:
            newest = json.loads(record.payload)
        if newest is not None:
            self._newest = _name(newest["journal"], newest["first"], newest["last"])


def _name(opened_id: str, first: int, last: int) -> FrozenRange:
    return FrozenRange(first, last, f"journal/{opened_id}/{first}-{last}")
