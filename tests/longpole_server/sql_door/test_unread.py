"""Answers that nobody reads: bounded together, each given up after a while."""

import asyncio

import pytest
from starlette.responses import Response
from starlette.types import Message, Scope

from longpole_server.errors import BusyError
from longpole_server.sql_door.unread import UnreadAnswers

SCOPE: Scope = {"type": "http"}
BODY = bytes(range(256)) * 4096


async def receive() -> Message:
    raise AssertionError


async def test_an_answer_is_sent_whole_and_counted_until_then():
    unread = UnreadAnswers(len(BODY))
    sent: list[Message] = []

    async def send(message: Message) -> None:
        assert unread.num_bytes == len(BODY)
        with pytest.raises(BusyError):
            unread.check()
        sent.append(message)

    unread.check()
    answer = unread.hold(Response(BODY, headers={"X-ClickHouse-Format": "Native"}))
    await answer(SCOPE, receive, send)
    assert unread.num_bytes == 0
    unread.check()
    head, *pieces = sent
    assert (b"x-clickhouse-format", b"Native") in head["headers"]
    assert (b"content-length", b"%d" % len(BODY)) in head["headers"]
    assert b"".join(piece["body"] for piece in pieces) == BODY
    assert [piece["more_body"] for piece in pieces] == [True, True, True, False]


@pytest.mark.parametrize("body", [b"", b"1\n"])
async def test_a_small_answer_is_one_piece(body: bytes):
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await UnreadAnswers(1).hold(Response(body))(SCOPE, receive, send)
    assert sent[1:] == [{"type": "http.response.body", "body": body, "more_body": False}]


async def test_a_client_that_takes_nothing_is_let_go_and_its_room_given_back():
    unread = UnreadAnswers(1, patience_s=0.01)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await unread.hold(Response(BODY))(SCOPE, receive, send)
    assert unread.num_bytes == 0


async def test_a_client_that_breaks_off_leaves_nothing():
    unread = UnreadAnswers(1)

    async def send(_: Message) -> None:
        raise OSError

    with pytest.raises(OSError):
        await unread.hold(Response(BODY))(SCOPE, receive, send)
    assert unread.num_bytes == 0
