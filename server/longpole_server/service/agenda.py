"""What is to be done and when: a set of keys, each with the time at which it is due."""

from typing import Generic, TypeVar

KeyType = TypeVar("KeyType")


class Agenda(Generic[KeyType]):
    """Keys that fall due once each, however often they are added before. Not thread-safe.

    Times are seconds of any one monotonic clock.
    """

    def __init__(self) -> None:
        self._due_s: dict[KeyType, float] = {}

    def __len__(self) -> int:
        """Return the number of keys that wait."""
        return len(self._due_s)

    def add(self, key: KeyType, due_s: float) -> None:
        """Put a key on the agenda; one that is there already keeps the earlier time."""
        present_s = self._due_s.get(key)
        if present_s is None or due_s < present_s:
            self._due_s[key] = due_s

    @property
    def next_due_s(self) -> float | None:
        """Time of the first key, None when nothing waits."""
        return min(self._due_s.values(), default=None)

    def take(self, now_s: float) -> list[KeyType]:
        """Remove and return the keys that are due."""
        taken = [key for key, due_s in self._due_s.items() if due_s <= now_s]
        for key in taken:
            del self._due_s[key]
        return taken
