"""Which layouts are known: those of the agents that send, a bounded number of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from longpole_server.ingest.columns.wire import LENGTH, UnfitError, make_tag, walk
from longpole_server.ingest.normalize.layouts import Layout, Reading, learn_layout
from longpole_server.ingest.normalize.sender import Sender

_TAG = make_tag(1, LENGTH)
_MAX_PAUSE = 64
# What was not seen for so long makes room.
_STALE_NS = 60 * 10**9
_MAX_ENTRIES = 16_384

# Length of a part, and its resource in protobuf.
_Name: TypeAlias = tuple[int, bytes]


@dataclass(slots=True)
class _Entry:
    """What is known of parts of one name.

    Attributes:
        countdown: Parts that come before one is learned from: those that change all the time are
            not worth it.
        pause: What the countdown begins at next time.
    """

    layout: Layout | None = None
    countdown: int = 1
    pause: int = 1
    seen_ns: int = 0


class LayoutBook:
    """Remembers layouts. Not thread-safe.

    Args:
        max_bytes: Bound of the parts that were learned from. With no room for another one it is
            read like a stranger's.
    """

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._entries: dict[_Name, _Entry] = {}
        self.num_read = 0

    def find(self, part: bytes, received_ns: int) -> Reading | None:
        """Return a part as read by its layout, None when there is none."""
        name = _name_part(part)
        entry = self._entries.pop(name, None) if name is not None else None
        if name is None or entry is None:
            return None
        # The oldest stand first.
        self._entries[name] = entry
        entry.seen_ns = received_ns
        if entry.layout is None:
            return None
        reading = entry.layout.read(part)
        if reading is None:
            self._forget(entry)
            entry.countdown = entry.pause = min(2 * entry.pause, _MAX_PAUSE)
        else:
            entry.pause = 1
            self.num_read += 1
        return reading

    def learn(self, part: bytes, sender: Sender, received_ns: int) -> None:
        """Look at an agent's part that no layout read, so that the next one is.

        Raises:
            DecodeError: It cannot be read.
        """
        name = _name_part(part)
        if name is None:
            return
        entry = self._entries.get(name)
        if entry is None:
            if self._make_room(0, received_ns):
                self._entries[name] = _Entry(seen_ns=received_ns)
            return
        entry.countdown -= 1
        if entry.countdown > 0 or not self._make_room(len(part), received_ns):
            return
        entry.layout = learn_layout(part, sender)
        if entry.layout is None:
            entry.countdown = entry.pause = _MAX_PAUSE
        else:
            self._num_bytes += len(part)

    def _make_room(self, num_bytes: int, now_ns: int) -> bool:
        while self._num_bytes + num_bytes > self._max_bytes or len(self._entries) > _MAX_ENTRIES:
            name = next(iter(self._entries), None)
            if name is None or now_ns - self._entries[name].seen_ns < _STALE_NS:
                return False
            self._forget(self._entries.pop(name))
        return True

    def _forget(self, entry: _Entry) -> None:
        if entry.layout is not None:
            self._num_bytes -= len(entry.layout.blank)
            entry.layout = None


def split_request(body: bytes) -> Sequence[bytes]:
    """Return the parts of a metrics request, none when it is not written as agents write."""
    try:
        fields = list(walk(body, 0, len(body)))
    except UnfitError:
        return []
    if any(tag != _TAG for tag, _, _ in fields):
        return []
    return [body[start:end] for _, start, end in fields]


def _name_part(part: bytes) -> _Name | None:
    try:
        tag, start, end = next(walk(part, 0, len(part)), (0, 0, 0))
    except UnfitError:
        return None
    return (len(part), part[start:end]) if tag == _TAG else None
