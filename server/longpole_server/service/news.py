"""What a server that only shows must know of the one that writes, and how it is told."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longpole_server.service.changes import ChangeFeed
from longpole_server.service.revisions import Revisions


@dataclass(frozen=True, slots=True)
class Seen:
    """Up to where somebody knows what changed.

    Attributes:
        epoch: Of the process that told it, empty before anything was told.
        version: Of the change feed.
        writes: Number of writes.
    """

    epoch: str = ""
    version: int = 0
    writes: int = 0


@dataclass(frozen=True, slots=True)
class News:
    """What changed after what somebody has seen.

    Attributes:
        epoch: Another one for each process: versions of two have nothing to do with each other.
        version, writes: Up to here.
        ts_ns: Data as of then can be read, UTC; 0 before anything came in.
        is_everything: Whether any run may have changed, and not these alone.
        runs: Ids of runs that changed.
        notes: Why GPUs of a run's nodes were not joined to it, by run.
        blind: Why nothing new can fire at the moment, null while rules are judged.
        lag_s: How far this server is behind with what it takes.
    """

    epoch: str
    version: int
    writes: int
    ts_ns: int
    is_everything: bool
    runs: Sequence[str]
    notes: Mapping[str, Sequence[str]]
    blind: str | None
    lag_s: float = 0.0


class NewsDesk:
    """Tells what changed at this server. Thread-safe.

    Args:
        changes: Says when.
        revisions: Says of which runs.
        list_notes: Returns notes about GPUs by run.
        explain_blindness: Returns why nothing new can fire.
        measure_lag: Returns how far this server is behind, in seconds.
    """

    def __init__(
        self,
        changes: ChangeFeed,
        revisions: Revisions,
        list_notes: Callable[[], Mapping[str, Sequence[str]]],
        explain_blindness: Callable[[], str | None],
        measure_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._changes = changes
        self._revisions = revisions
        self._list_notes = list_notes
        self._explain_blindness = explain_blindness
        self._measure_lag = measure_lag
        self._epoch = f"{time.time_ns():x}-{secrets.token_hex(4)}"

    async def wait(self, seen: Seen, timeout_s: float) -> News:
        """Return what changed since, once something did, or at the timeout."""
        if seen.epoch == self._epoch:
            await self._changes.wait(seen.version, timeout_s)
        return self._tell(seen)

    def _tell(self, seen: Seen) -> News:
        is_everything = seen.epoch != self._epoch
        # Taken before the runs: what changes meanwhile is told again, not left out.
        change = self._changes.current
        writes, runs = self._revisions.list_changed(seen.writes)
        return News(
            epoch=self._epoch,
            version=change.version,
            writes=writes,
            ts_ns=change.ts_ns,
            is_everything=is_everything,
            runs=() if is_everything else runs,
            notes=self._list_notes(),
            blind=self._explain_blindness(),
            lag_s=self._measure_lag(),
        )
