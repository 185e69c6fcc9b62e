"""How much the receivers take in."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from longpole_server.errors import BusyError


@dataclass(frozen=True, slots=True)
class OtlpLimits:
    """Bounds of the OTLP receivers.

    Attributes:
        max_request_bytes: Largest request after decompression.
        max_in_flight_bytes: Most bytes of all HTTP bodies being received and decoded; over gRPC as
            many again, of which a message counts as the largest one while it comes in.
        max_concurrent_calls: Most gRPC calls at a time; what each sends ahead is small.
        turn_wait_s: How long a gRPC call waits until there is room for its message.
    """

    max_request_bytes: int = 64 << 20
    max_in_flight_bytes: int = 256 << 20
    max_concurrent_calls: int = 512
    turn_wait_s: float = 5.0


class Reservation:
    """What one request holds of the bytes in flight. Used in one event loop only."""

    def __init__(self, meter: "InFlightMeter") -> None:
        self._meter = meter
        self.num_bytes = 0

    def add(self, num_bytes: int) -> None:
        """Take more.

        Raises:
            BusyError: The bound is reached.
        """
        self._meter.take(num_bytes)
        self.num_bytes += num_bytes


class InFlightMeter:
    """Counts the bytes of requests in flight against a bound. Used in one event loop only."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.num_bytes = 0

    @contextmanager
    def reserve(self) -> Generator[Reservation]:
        """Give a reservation that grows as the body comes in and ends with the block."""
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            self.num_bytes -= reservation.num_bytes

    def take(self, num_bytes: int) -> None:
        """Count more bytes.

        Raises:
            BusyError: The bound is reached and others hold some of it.
        """
        if self.num_bytes and self.num_bytes + num_bytes > self._max_bytes:
            raise BusyError("Too many requests are being received at once.")
        self.num_bytes += num_bytes
