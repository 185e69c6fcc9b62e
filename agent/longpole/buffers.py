"""Bounded buffers between the trainer's threads and the sender."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Buffer(Generic[T]):
    """First in, first out, with a bound: when full, the oldest records go and are counted.

    Args:
        limit: Bound of the sum of weights.
        weigh: Weight of a record; 1 for every record when missing.
    """

    __slots__ = ("_limit", "_lock", "_num_dropped", "_records", "_weigh", "_weight")

    def __init__(self, limit: int, weigh: Callable[[T], int] | None = None) -> None:
        self._limit = limit
        self._weigh = weigh
        self._records: deque[T] = deque()
        self._weight = 0
        self._num_dropped = 0
        # Reentrant: a signal handler of the trainer may record while its thread records.
        self._lock = threading.RLock()

    def append(self, record: T) -> None:
        """Add a record; drops the oldest when the bound is exceeded. Never waits for the sender."""
        with self._lock:
            self._records.append(record)
            self._weight += 1 if self._weigh is None else self._weigh(record)
            if self._weight > self._limit:
                self._drop_oldest()

    def take(self, max_records: int) -> list[T]:
        """Remove and return up to `max_records` of the oldest records."""
        with self._lock:
            num_taken = min(max_records, len(self._records))
            taken = [self._records.popleft() for _ in range(num_taken)]
            self._weight -= self._sum_weights(taken)
        return taken

    def clear(self) -> int:
        """Drop and count everything; returns how many records that were."""
        with self._lock:
            num_cleared = len(self._records)
            self._records.clear()
            self._weight = 0
            self._num_dropped += num_cleared
        return num_cleared

    def __len__(self) -> int:
        return len(self._records)

    @property
    def num_dropped(self) -> int:
        """Records dropped because the buffer was full or cleared."""
        return self._num_dropped

    def _drop_oldest(self) -> None:
        while self._weight > self._limit and self._records:
            self._weight -= self._sum_weights((self._records.popleft(),))
            self._num_dropped += 1

    def _sum_weights(self, records: "list[T] | tuple[T, ...]") -> int:
        return len(records) if self._weigh is None else sum(map(self._weigh, records))
