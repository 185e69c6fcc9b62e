"""Which batches were seen: the newest ids, a bounded number of them."""

from collections.abc import Iterable


class BatchIds:
    """A set that forgets its oldest members. Not thread-safe.

    Args:
        capacity: Most ids remembered. A batch that is sent again after so many others is taken
            for a new one.
        ids: What is known at the start, oldest first.
    """

    def __init__(self, capacity: int, ids: Iterable[str] = ()) -> None:
        self._capacity = capacity
        self._ids: dict[str, None] = {}
        for batch_id in ids:
            self.add(batch_id)

    def __contains__(self, batch_id: str) -> bool:
        return batch_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, batch_id: str) -> None:
        """Remember an id as the newest."""
        self._ids.pop(batch_id, None)
        self._ids[batch_id] = None
        if len(self._ids) > self._capacity:
            del self._ids[next(iter(self._ids))]
