"""A bound on the bytes that requests in flight hold in memory."""

from collections.abc import Generator
from contextlib import contextmanager

from longpole_agent.errors import BusyError


class Room:
    """Bytes in flight, of one event loop. Who finds no room is told to come back.

    Args:
        max_bytes: Bound over all requests together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0

    @contextmanager
    def reserve(self) -> "Generator[Reservation, None, None]":
        """Give a reservation that starts empty and is given back at the end."""
        reservation = Reservation(self)
        try:
            yield reservation
        finally:
            self._used_bytes -= reservation.num_bytes

    def take(self, num_bytes: int) -> None:
        """Count bytes as in flight.

        Raises:
            BusyError: There is no room for them.
        """
        if self._used_bytes + num_bytes > self._max_bytes:
            raise BusyError(f"more than {self._max_bytes} bytes of requests are in flight")
        self._used_bytes += num_bytes


class Reservation:
    """What one request holds of the room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.num_bytes = 0

    def grow(self, num_bytes: int) -> None:
        """Take more room.

        Raises:
            BusyError: There is none.
        """
        self._room.take(num_bytes)
        self.num_bytes += num_bytes
