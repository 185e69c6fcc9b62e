"""The background thread that empties the buffers and delivers what it finds."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from longpole.buffers import Buffer
from longpole.complaints import Complaints
from longpole.delivery import Outcome
from longpole.otlp import Encoded


class Deliverer(Protocol):
    """What the sender needs of a delivery; see `longpole.delivery.Delivery`."""

    def deliver(self, path: str, body: bytes) -> Outcome:
        """Deliver one body."""
        ...

    def close_by(self, timeout_s: float) -> None:
        """Give up after `timeout_s`."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(slots=True)
class Channel:
    """One kind of record on its way: buffer, encoding, OTLP path, and counts.

    Attributes:
        kind: `spans`, `trajectories`, `points` or `events`.
        path: OTLP/HTTP path.
        batch_size: Most records in one request.
    """

    kind: str
    path: str
    buffer: Buffer[Any]
    encode: Callable[[Sequence[Any]], Encoded]
    batch_size: int
    num_sent: int = field(default=0, init=False)
    num_lost: int = field(default=0, init=False)
    num_unfit: int = field(default=0, init=False)

    @property
    def num_dropped(self) -> int:
        """Records dropped from the buffer, refused or abandoned."""
        return self.buffer.num_dropped + self.num_lost

    @property
    def num_skipped(self) -> int:
        """Records that could not be encoded or were not meant to be sent."""
        return self.buffer.num_skipped + self.num_unfit


class Sender:
    """Owns the thread. Everything else reaches it through buffers and events.

    Args:
        channels: In the order in which they are served.
        delivery: Delivers bodies; may block for as long as the receiver is away.
        repeat: Called about every `delay_s`: announces what is still open.
        complaints: Counts trouble.
        delay_s: How long records wait for company.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        delivery: Deliverer,
        repeat: Callable[[], None],
        complaints: Complaints,
        delay_s: float,
    ) -> None:
        self._channels = channels
        self._delivery = delivery
        self._repeat = repeat
        self._complaints = complaints
        self._delay_s = delay_s
        self._wake = threading.Event()
        self._is_closing = False
        self._condition = threading.Condition()
        self._num_flushes_asked = 0
        self._num_flushes_done = 0
        self._thread = threading.Thread(target=self._run, name="longpole-sender", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def flush(self, timeout_s: float) -> bool:
        """Wait until what is in the buffers now is settled; returns whether all was accepted."""
        num_dropped_before = self._count_dropped()
        with self._condition:
            self._num_flushes_asked += 1
            number = self._num_flushes_asked
            self._wake.set()
            is_done = self._condition.wait_for(
                lambda: self._num_flushes_done >= number, max(timeout_s, 0.0)
            )
        return is_done and self._count_dropped() == num_dropped_before

    def close(self, timeout_s: float) -> bool:
        """Deliver what is left, within `timeout_s`; returns whether all was accepted."""
        num_dropped_before = self._count_dropped()
        self._delivery.close_by(timeout_s)
        self._is_closing = True
        self._wake.set()
        self._thread.join(max(timeout_s, 0.0))
        return not self._thread.is_alive() and self._count_dropped() == num_dropped_before

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._delay_s)
            self._wake.clear()
            # Read before the pass: whatever was recorded before it was set is then included.
            is_last = self._is_closing
            number = self._num_flushes_asked
            try:
                self._repeat()
                self._send_all()
            except Exception as error:  # noqa: BLE001 - the thread must outlive any batch
                self._complaints.report("internal", "could not send a batch: %r", error)
            with self._condition:
                self._num_flushes_done = number
                self._condition.notify_all()
        for channel in self._channels:
            channel.buffer.clear()
        self._delivery.close()

    def _send_all(self) -> None:
        """Send as many records as there are now, a batch of each kind in turn."""
        left = [(channel, len(channel.buffer)) for channel in self._channels]
        while left:
            left = [
                (channel, num_left - channel.batch_size)
                for channel, num_left in left
                if num_left > 0 and self._send_batch(channel)
            ]

    def _send_batch(self, channel: Channel) -> bool:
        """Send one batch; returns whether it is worth going on."""
        records = channel.buffer.take(channel.batch_size)
        if not records:
            return False
        try:
            encoded = channel.encode(records)
        except Exception:
            channel.num_lost += len(records)
            raise
        channel.num_unfit += encoded.num_skipped
        if encoded.num_records == 0:
            return True
        outcome = self._delivery.deliver(channel.path, encoded.body)
        if outcome is Outcome.DELIVERED:
            channel.num_sent += encoded.num_records
        else:
            channel.num_lost += encoded.num_records
        return outcome is not Outcome.ABANDONED

    def _count_dropped(self) -> int:
        return sum(channel.num_dropped for channel in self._channels)
