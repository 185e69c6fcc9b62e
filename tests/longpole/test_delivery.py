import random
import threading
from collections.abc import Callable

import pytest

from longpole.clock import Clock
from longpole.complaints import Complaints
from longpole.delivery import Delivery, Outcome
from longpole.errors import InvalidSetting, ReceiverUnreachable
from longpole.http_post import Reply

DEADLINE_S = 60.0


class FakePost:
    """Answers with a list of replies, the last one for ever; None is no answer."""

    def __init__(self, *replies: Reply | None) -> None:
        self.replies = list(replies)
        self.tokens: list[str | None] = []
        self.attempted = threading.Event()
        self.is_closed = False

    def post(self, path: str, body: bytes, token: str | None, timeout_s: float) -> Reply:
        self.tokens.append(token)
        self.attempted.set()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if reply is None:
            raise ReceiverUnreachable("http://127.0.0.1:1: refused")
        return reply

    def close(self) -> None:
        self.is_closed = True


def build(
    post: FakePost, read_token: Callable[[], str | None] = lambda: None
) -> tuple[Delivery, Complaints]:
    complaints = Complaints()
    delivery = Delivery(post, read_token, complaints, Clock(), first_pause_s=0.01, max_pause_s=0.02)
    return delivery, complaints


def test_delivers() -> None:
    post = FakePost(Reply(200))
    delivery, complaints = build(post, lambda: "secret")
    assert delivery.deliver("/v1/logs", b"x") is Outcome.DELIVERED
    assert post.tokens == ["secret"]
    assert complaints.count() == {}


@pytest.mark.parametrize("trouble", [None, Reply(429), Reply(502), Reply(503, 0.0), Reply(504)])
def test_asks_again_until_the_receiver_is_there(trouble: Reply | None) -> None:
    post = FakePost(trouble, trouble, trouble, Reply(200))
    delivery, _ = build(post)
    assert delivery.deliver("/v1/logs", b"x") is Outcome.DELIVERED
    assert len(post.tokens) == 4


@pytest.mark.parametrize("status", [301, 400, 404, 413, 415, 500])
def test_refused_batch_is_given_up(status: int) -> None:
    post = FakePost(Reply(status))
    delivery, complaints = build(post)
    assert delivery.deliver("/v1/logs", b"x") is Outcome.REFUSED
    assert len(post.tokens) == 1
    assert complaints.count() == {f"refused_{status}": 1}


def test_refused_token_is_read_anew() -> None:
    tokens = iter(["old", "new"])
    post = FakePost(Reply(401), Reply(200))
    delivery, complaints = build(post, lambda: next(tokens))
    assert delivery.deliver("/v1/logs", b"x") is Outcome.DELIVERED
    assert post.tokens == ["old", "new"]
    assert complaints.count() == {"token_refused": 1}


def test_what_the_token_may_not_send_is_dropped_and_the_receivers_reason_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A 403 about a batch was taken for a refused token: it was sent for ever, and all behind it
    was dropped while the trainer was told to set a token that it had."""
    tokens = iter(["old", "new"])
    reason = "token a may not send to project 'b'. Choose another run id."
    post = FakePost(Reply(403, message=reason), Reply(200))
    delivery, complaints = build(post, lambda: next(tokens))
    assert delivery.deliver("/v1/logs", b"x") is Outcome.REFUSED
    assert delivery.deliver("/v1/logs", b"y") is Outcome.DELIVERED
    assert post.tokens == ["old", "new"]
    assert complaints.count() == {"refused_403": 1}
    assert caplog.messages == [
        f"longpole: the receiver refuses /v1/logs (HTTP 403); dropping it: {reason}"
    ]


def test_unusable_token_is_said_and_nothing_stops() -> None:
    def read_token() -> str | None:
        raise InvalidSetting("no such file")

    delivery, complaints = build(FakePost(Reply(200)), read_token)
    assert delivery.deliver("/v1/logs", b"x") is Outcome.DELIVERED
    assert complaints.count() == {"invalid_setting": 1}


@pytest.mark.parametrize("trouble", [None, Reply(503), Reply(401)])
def test_closing_ends_the_patience(trouble: Reply | None) -> None:
    post = FakePost(trouble)
    delivery, _ = build(post)
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(delivery.deliver("/v1/logs", b"x")))
    thread.start()
    assert post.attempted.wait(DEADLINE_S)
    delivery.close_by(0.05)
    thread.join(DEADLINE_S)
    assert outcomes in ([Outcome.ABANDONED], [Outcome.REFUSED])
    delivery.close()
    assert post.is_closed


def test_receiver_never_reached_is_tried_once_more_when_closing() -> None:
    post = FakePost(None)
    delivery, _ = build(post)
    delivery.close_by(DEADLINE_S)
    assert delivery.deliver("/v1/logs", b"x") is Outcome.ABANDONED
    assert len(post.tokens) == 1


def test_receiver_that_was_there_is_waited_for_when_closing() -> None:
    post = FakePost(Reply(200), None, None, Reply(200))
    delivery, _ = build(post)
    delivery.deliver("/v1/logs", b"x")
    delivery.close_by(DEADLINE_S)
    assert delivery.deliver("/v1/logs", b"y") is Outcome.DELIVERED


def test_random_state_that_the_trainer_seeded_is_left_alone() -> None:
    random.seed(0)
    state = random.getstate()
    delivery, _ = build(FakePost(None, Reply(503), Reply(200)))
    delivery.deliver("/v1/logs", b"x")
    assert random.getstate() == state
