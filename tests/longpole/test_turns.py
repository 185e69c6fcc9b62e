import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from longpole.turns import NoTurnError, Turns

MESSAGE = 100


async def messages(body: bytes, come: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    if come is not None:
        await come.wait()
    yield body


async def never_end(error: NoTurnError) -> None:
    raise AssertionError(error)


class Call:
    """A call that takes a turn, reads its message when told and ends when told."""

    def __init__(self, turns: Turns, peer: str, log: list[str]) -> None:
        self.comes, self.ends = asyncio.Event(), asyncio.Event()
        self.ended_by: NoTurnError | None = None
        self._turns, self._peer, self._log = turns, peer, log
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self._turns.take(self._peer) as turn:
            self._log.append(self._peer)
            if await turn.read(messages(b"x" * 10, self.comes), self._end) is not None:
                await self.ends.wait()

    def _end(self, error: NoTurnError) -> Awaitable[object]:
        async def end() -> None:
            self.ended_by = error
            self.task.cancel()

        return end()

    async def finish(self) -> None:
        self.comes.set()
        self.ends.set()
        await self.task


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_message_counts_as_the_largest_until_it_is_read() -> None:
    turns = Turns(250, MESSAGE, 9)
    log: list[str] = []
    calls = [Call(turns, name, log) for name in "abc"]
    await settle()
    assert (log, turns.num_bytes) == (["a", "b"], 200)
    calls[0].comes.set()
    await settle()
    assert (log, turns.num_bytes) == (["a", "b", "c"], 210)
    for call in calls:
        await call.finish()
    assert turns.num_bytes == 0


async def test_one_message_is_read_whatever_the_bound() -> None:
    turns = Turns(1, MESSAGE, 9)
    async with turns.take("a") as turn:
        assert await turn.read(messages(b"12345"), never_end) == b"12345"
        assert turns.num_bytes == 5
    assert turns.num_bytes == 0


async def test_peers_take_turns_however_many_calls_one_has() -> None:
    turns = Turns(MESSAGE, MESSAGE, 9, patience_s=60)
    log: list[str] = []
    calls = [Call(turns, name, log) for name in "aaaabc"]
    for call in (calls[0], calls[1], calls[4], calls[5], calls[2], calls[3]):
        await settle()
        await call.finish()
    assert "".join(log) == "aabcaa"


async def test_calls_beyond_the_bound_are_refused_at_once() -> None:
    turns = Turns(MESSAGE, MESSAGE, 2)
    log: list[str] = []
    calls = [Call(turns, "a", log) for _ in range(2)]
    await settle()
    with pytest.raises(NoTurnError) as caught:
        async with turns.take("b"):
            pass
    assert caught.value.retry_after_s > 0
    assert turns.num_refused == 1
    for call in calls:
        await call.finish()
    async with turns.take("b"):
        pass


async def test_who_waits_too_long_is_refused_and_forgotten() -> None:
    turns = Turns(MESSAGE, MESSAGE, 9, wait_s=0.01, patience_s=60)
    first = Call(turns, "a", [])
    await settle()
    with pytest.raises(NoTurnError):
        async with turns.take("b"):
            pass
    await first.finish()
    assert turns.num_bytes == 0
    async with turns.take("b"):
        assert turns.num_bytes == MESSAGE


async def test_a_caller_that_goes_while_it_waits_takes_nothing_along() -> None:
    turns = Turns(MESSAGE, MESSAGE, 9)
    log: list[str] = []
    first, second, third = (Call(turns, name, log) for name in "abc")
    await settle()
    second.task.cancel()
    # Its turn comes before it is gone.
    first.comes.set()
    first.ends.set()
    await settle()
    assert log == ["a", "c"]
    await third.finish()
    assert turns.num_bytes == 0
    assert second.task.cancelled()


async def test_a_slow_message_is_given_up_once_others_wait() -> None:
    turns = Turns(MESSAGE, MESSAGE, 9, wait_s=60, patience_s=0.01)
    log: list[str] = []
    slow = Call(turns, "slow", log)
    await asyncio.sleep(0.05)
    assert slow.ended_by is None
    await Call(turns, "quick", log).finish()
    assert slow.ended_by is not None
    assert turns.num_refused == 1
    assert log == ["slow", "quick"]
    assert turns.num_bytes == 0


async def test_what_is_read_is_not_given_up() -> None:
    turns = Turns(MESSAGE, MESSAGE, 9, wait_s=0.05, patience_s=0.01)
    first = Call(turns, "a", [])
    first.comes.set()
    await settle()
    second = Call(turns, "b", [])
    with pytest.raises(NoTurnError):
        await second.task
    assert first.ended_by is None
    await first.finish()


async def test_a_call_without_a_message_holds_none() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        return
        yield b""

    turns = Turns(MESSAGE, MESSAGE, 9)
    async with turns.take("a") as turn:
        assert await turn.read(nothing(), never_end) is None
        assert not turn.is_over
    assert turns.num_bytes == 0
