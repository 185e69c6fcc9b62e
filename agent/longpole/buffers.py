"""Bounded buffers between the trainer's threads and the sender."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Buffer(Generic[T]):
    """First in, first out, with a bound: when full, the oldest records go and are counted.

    Appending takes no lock unless the record is heavier than 1 or the buffer is full: it is what
    the trainer's threads pay for.

    Args:
        limit: Bound of the sum of weights.
        weigh: What a record weighs beyond 1, as told to `append`; nothing when missing.
    """

    __slots__ = (
        "_extra_weight",
        "_limit",
        "_lock",
        "_num_dropped",
        "_num_skipped",
        "_records",
        "_weigh",
    )

    def __init__(self, limit: int, weigh: Callable[[T], int] | None = None) -> None:
        self._limit = limit
        self._weigh = weigh
        self._records: deque[T] = deque()
        self._extra_weight = 0
        self._num_dropped = 0
        self._num_skipped = 0
        # Reentrant: a signal handler of the trainer may record while its thread records.
        self._lock = threading.RLock()

    def append(self, record: T, extra_weight: int = 0) -> None:
        """Add a record; drops the oldest when the bound is exceeded. Never waits for the sender."""
        self._records.append(record)
        if extra_weight:
            with self._lock:
                self._extra_weight += extra_weight
        if len(self._records) + self._extra_weight > self._limit:
            self._drop_oldest()

    def take(self, max_records: int) -> list[T]:
        """Remove and return up to `max_records` of the oldest records."""
        with self._lock:
            return [self._pop() for _ in range(min(max_records, len(self._records)))]

    def skip(self, num_records: int) -> None:
        """Count records that are not meant to be sent."""
        with self._lock:
            self._num_skipped += num_records

    def clear(self) -> None:
        """Drop and count everything."""
        with self._lock:
            self._num_dropped += len(self.take(len(self._records)))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def num_dropped(self) -> int:
        """Records dropped because the buffer was full or cleared."""
        return self._num_dropped

    @property
    def num_skipped(self) -> int:
        """Records that were not meant to be sent."""
        return self._num_skipped

    def _drop_oldest(self) -> None:
        with self._lock:
            while self._records and len(self._records) + self._extra_weight > self._limit:
                self._pop()
                self._num_dropped += 1

    def _pop(self) -> T:
        # Only ever called under the lock, so whoever saw a record finds it.
        record = self._records.popleft()
        if self._weigh is not None:
            self._extra_weight -= self._weigh(record)
        return record
