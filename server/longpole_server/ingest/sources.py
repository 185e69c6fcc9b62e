"""What each sender holds of the journal, so that a noisy one fills only its own share."""

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from longpole_server.errors import BusyError

_RETRY_AFTER_S = 2.0
# A sender that was quiet for longer claims no share.
_ACTIVE_S = 30.0
# Looking at all of them with every request would cost more, the more there are.
_LOOK_EVERY_S = 1.0
_MAX_SOURCES = 4096


def name_source(batch_id: str | None, peer: str | None) -> str:
    """Return who sends: the agent that its batch ids name, else the address it sends from."""
    agent, slash, _ = (batch_id or "").partition("/")
    return agent if slash and agent else peer or ""


@dataclass(slots=True)
class _Source:
    num_bytes: int
    seen_s: float


class SourceShares:
    """Bounds what one sender holds of the requests that wait for the store.

    A sender may hold half of the room that the others leave: alone half of the journal, and many
    that are alike equal shares, with one more left for whoever comes next. With others beside it,
    it may hold no more than `max_beside_bytes`: requests are stored in the order they came, so that
    a long queue of one sender would make the others' data late. Not thread-safe: the journal's lock
    guards it.

    Args:
        capacity_bytes: Room of the journal.
        max_beside_bytes: Most that one sender holds while others send.
        clock_s: Monotonic seconds.
    """

    def __init__(
        self,
        capacity_bytes: int,
        max_beside_bytes: int = 64 << 20,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._capacity_bytes = capacity_bytes
        self._max_beside_bytes = max_beside_bytes
        self._clock_s = clock_s
        self._sources: dict[str, _Source] = {}
        self._total_bytes = 0
        self._looked_s = -math.inf
        self._stored: deque[tuple[int, str, int]] = deque()
        self.num_refused = 0

    @property
    def num_sources(self) -> int:
        """Senders that hold something or were heard of lately."""
        return len(self._sources)

    def take(self, source: str, num_bytes: int) -> None:
        """Count a request that is to wait.

        Raises:
            BusyError: Its sender holds its share already.
        """
        now_s = self._clock_s()
        self._forget(now_s)
        holder = self._sources.get(source)
        if holder is None:
            holder = self._sources[source] = _Source(0, now_s)
        holder.seen_s = now_s
        # One request of any size is taken, or a large one could never be sent.
        if holder.num_bytes and holder.num_bytes + num_bytes > self._share_bytes(holder):
            self.num_refused += 1
            raise BusyError("This sender has sent more than its share.", _RETRY_AFTER_S)
        holder.num_bytes += num_bytes
        self._total_bytes += num_bytes

    def keep(self, sequence: int, source: str, num_bytes: int) -> None:
        """Say under which number a request waits in the journal."""
        self._stored.append((sequence, source, num_bytes))

    def give_back(self, source: str, num_bytes: int) -> None:
        """Say that a request waits no more."""
        holder = self._sources.get(source)
        if holder is not None:
            holder.num_bytes -= num_bytes
            self._total_bytes -= num_bytes

    def give_back_through(self, sequence: int) -> None:
        """Say that everything up to a number is stored."""
        while self._stored and self._stored[0][0] <= sequence:
            _, source, num_bytes = self._stored.popleft()
            self.give_back(source, num_bytes)

    def _share_bytes(self, holder: _Source) -> int:
        others_bytes = self._total_bytes - holder.num_bytes
        share_bytes = (self._capacity_bytes - others_bytes) // 2
        if len(self._sources) == 1:
            return share_bytes
        return min(share_bytes, self._max_beside_bytes)

    def _forget(self, now_s: float) -> None:
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            quiet = [
                name
                for name, source in self._sources.items()
                if not source.num_bytes and now_s - source.seen_s > _ACTIVE_S
            ]
            for name in quiet:
                del self._sources[name]
        if len(self._sources) > _MAX_SOURCES:
            idle = next((name for name, one in self._sources.items() if not one.num_bytes), None)
            if idle is not None:
                del self._sources[idle]
