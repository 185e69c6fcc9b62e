"""Whose message a gRPC server reads next. Agent and server share it.

gRPC takes a message whole into memory, and nobody knows its size before. What is not read yet waits
at its sender, who may send 64 KiB ahead: so a call takes its turn before its message is read.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

# Ends a call whose turn is over with an answer that says so.
EndCall = Callable[["NoTurnError"], Awaitable[object]]


class NoTurnError(Exception):
    """Too many calls are under way; the caller may come back.

    Args:
        message: One sentence for people.
        retry_after_s: Seconds after which a retry makes sense.
    """

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Turn:
    """The right of one call to hold a message.

    Attributes:
        num_bytes: What it counts as now.
        since_s: When it began, by the event loop's clock.
        is_over: Whether the call was ended while its message came in.
    """

    def __init__(self, turns: "Turns", num_bytes: int, since_s: float) -> None:
        self._turns = turns
        self._end: EndCall | None = None
        self._ending: asyncio.Future[object] | None = None
        self.num_bytes = num_bytes
        self.since_s = since_s

    @property
    def is_over(self) -> bool:
        """Whether the call was ended while its message came in."""
        return self._ending is not None

    async def read(self, messages: "AsyncIterator[bytes]", end: EndCall) -> "bytes | None":
        """Return the call's message, None when none comes.

        Args:
            messages: Reads from the call.
            end: Called, in a task of its own, when the message takes too long.
        """
        self._end = end
        try:
            async for message in messages:
                self._turns.stop_reading(self, len(message))
                return message
            return None
        finally:
            self._end = None

    def end(self, error: NoTurnError) -> None:
        """End the call while its message is read."""
        if self._end is not None and self._ending is None:
            self._ending = asyncio.ensure_future(self._end(error))
            # gRPC raises in whoever ends a call.
            self._ending.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


class Turns:
    """Bounds the bytes of messages that are read or were read and are not done with.

    While a message is read it counts as one of the largest size. Who finds no room waits for a
    turn, and each peer in turn gets one, so that one with many calls delays others by one message.
    A message that comes in slowly is given up once others wait. Used in one event loop only.

    Args:
        max_bytes: Bound over all messages together.
        message_bytes: Bound of one message.
        max_calls: Most calls that hold a turn or wait for one; further ones are refused.
        wait_s: How long a call waits.
        patience_s: How long a message may take to come in while others wait.

    Attributes:
        num_bytes: What is held now.
        num_refused: Calls that got no turn, or lost it.
    """

    def __init__(
        self,
        max_bytes: int,
        message_bytes: int,
        max_calls: int,
        wait_s: float = 5.0,
        patience_s: float = 2.0,
    ) -> None:
        self._max_bytes = max_bytes
        self._message_bytes = message_bytes
        self._max_calls = max_calls
        self._wait_s = wait_s
        self._patience_s = patience_s
        self._num_calls = 0
        # Peers in the order in which they get their next turn.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._reading: dict[Turn, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.num_bytes = 0
        self.num_refused = 0

    @asynccontextmanager
    async def take(self, peer: str) -> "AsyncGenerator[Turn, None]":
        """Wait for a turn, and give it back at the end of the block.

        Args:
            peer: Who calls; calls of one peer wait for each other.

        Raises:
            NoTurnError: Too many call, or the others took too long.
        """
        if self._num_calls >= self._max_calls:
            raise self._refuse("Too many calls at once.")
        self._num_calls += 1
        try:
            if self._waiting or not self._has_room():
                await self._wait(peer)
            else:
                self.num_bytes += self._message_bytes
            loop = asyncio.get_running_loop()
            turn = Turn(self, self._message_bytes, loop.time())
            self._reading[turn] = None
            try:
                yield turn
            finally:
                self.stop_reading(turn, 0)
        finally:
            self._num_calls -= 1

    def stop_reading(self, turn: Turn, num_bytes: int) -> None:
        """Let a turn hold so many bytes from now on."""
        self._reading.pop(turn, None)
        freed_bytes, turn.num_bytes = turn.num_bytes - num_bytes, num_bytes
        self._give_back(freed_bytes)

    async def _wait(self, peer: str) -> None:
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(peer, deque()).append(granted)
        timer = loop.call_later(self._wait_s, self._give_up, granted)
        self._hurry()
        try:
            await granted
        except asyncio.CancelledError:
            # The caller has gone, perhaps just when its turn came.
            if granted.done() and not granted.cancelled() and granted.exception() is None:
                self._give_back(self._message_bytes)
            raise
        finally:
            timer.cancel()
            self._forget(peer, granted)

    def _give_up(self, granted: "asyncio.Future[None]") -> None:
        if not granted.done():
            granted.set_exception(self._refuse("Other messages take too long to come in."))

    def _forget(self, peer: str, granted: "asyncio.Future[None]") -> None:
        of_peer = self._waiting.get(peer)
        if of_peer is not None and granted in of_peer:
            of_peer.remove(granted)
            if not of_peer:
                del self._waiting[peer]

    def _has_room(self) -> bool:
        # One is always read, whatever the bound.
        return not self.num_bytes or self.num_bytes + self._message_bytes <= self._max_bytes

    def _give_back(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes
        while self._waiting and self._has_room():
            peer, of_peer = self._waiting.popitem(last=False)
            granted = of_peer.popleft()
            if of_peer:
                self._waiting[peer] = of_peer
            if not granted.done():
                self.num_bytes += self._message_bytes
                granted.set_result(None)

    def _hurry(self) -> None:
        """End the calls whose messages come in too slowly for those who wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        num_waiting = sum(map(len, self._waiting.values()))
        for turn in list(self._reading)[:num_waiting]:
            due_s = turn.since_s + self._patience_s
            if due_s > loop.time():
                self._timer = loop.call_at(due_s, self._hurry)
                return
            if not turn.is_over:
                turn.end(self._refuse("The message came in too slowly while others waited."))

    def _refuse(self, message: str) -> NoTurnError:
        self.num_refused += 1
        return NoTurnError(message, self._patience_s)
