"""Numbers that grow when a run's derived data changes: what was computed before may be kept."""

import threading
from collections import defaultdict


class Revisions:
    """One number a run, and one for everything. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_writes = 0
        self._revisions: defaultdict[str, int] = defaultdict(int)
        # The number of the write that changed a run last.
        self._changed_at: dict[str, int] = {}
        # Of all runs, for what no single run is known of.
        self._base = 0

    def bump(self, run_id: str) -> None:
        """Say that a run's steps, description or GPUs changed."""
        with self._lock:
            self._revisions[run_id] += 1
            self._num_writes += 1
            self._changed_at[run_id] = self._num_writes

    def bump_every(self) -> None:
        """Say that any run may have changed."""
        with self._lock:
            self._base += 1
            self._num_writes += 1

    def touch(self) -> None:
        """Say that something was written, of whatever run."""
        with self._lock:
            self._num_writes += 1

    @property
    def num_writes(self) -> int:
        """The number that grows with every write of this server."""
        return self._num_writes

    def of(self, run_id: str) -> int:
        """Return the run's number."""
        with self._lock:
            return self._base + self._revisions.get(run_id, 0)

    def list_changed(self, num_writes: int) -> tuple[int, list[str]]:
        """Return the number of writes, and the runs that changed after the first so many."""
        with self._lock:
            changed = [run for run, at in self._changed_at.items() if at > num_writes]
            return self._num_writes, changed

    def snapshot(self) -> dict[str, int]:
        """Return the numbers of all runs that changed since the start."""
        with self._lock:
            return dict(self._revisions)
