"""Delivering a batch: how often, how patiently, and when to give up."""

import enum
import random
import threading
import time
from collections.abc import Callable
from typing import Protocol

from longpole.clock import Clock
from longpole.complaints import Complaints
from longpole.errors import InvalidSetting, ReceiverUnreachable
from longpole.http_post import Reply

_ATTEMPT_TIMEOUT_S = 5.0
# A receiver may ask for longer pauses than ours, but not for ever.
_MAX_RETRY_AFTER_S = 60.0
_NS_PER_S = 1_000_000_000

# https://opentelemetry.io/docs/specs/otlp/#failures-1 names these as retryable.
_BUSY_STATUSES = frozenset({429, 502, 503, 504})
# Not retryable by that page, but a token file may be rotated under a run of weeks.
_NO_TOKEN = 401
# The token is good, and not for what the batch says: the same batch would never be taken.
_NOT_ALLOWED = 403


class Post(Protocol):
    """One attempt. Raises `ReceiverUnreachable` when there is no answer."""

    def post(self, path: str, body: bytes, token: str | None, timeout_s: float) -> Reply:
        """Send one body."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Outcome(enum.Enum):
    """How a delivery ended."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    ABANDONED = "abandoned"


class Delivery:
    """Delivers batches one after the other, for as long as the process lives.

    An unreachable or busy receiver is asked again with growing pauses; a batch that it refuses is
    given up at once. Runs on the sender's thread only, except `close_by`.
    """

    def __init__(
        self,
        post: Post,
        read_token: Callable[[], str | None],
        complaints: Complaints,
        clock: Clock,
        first_pause_s: float = 0.25,
        max_pause_s: float = 5.0,
    ) -> None:
        self._post = post
        self._read_token = read_token
        self._complaints = complaints
        self._clock = clock
        self._first_pause_s = first_pause_s
        self._max_pause_s = max_pause_s
        # Not the global generator: trainers seed it and expect nobody else to draw from it.
        self._random = random.SystemRandom()
        self._closing = threading.Event()
        self._deadline_ns = 0
        self._token: str | None = None
        self._is_token_read = False
        self._was_reached = False

    def deliver(self, path: str, body: bytes) -> Outcome:
        """Deliver one body, or say why not. Returns only when it is settled."""
        pause_s = self._first_pause_s
        while True:
            reply = self._attempt(path, body)
            if reply is not None:
                self._was_reached = True
                if 200 <= reply.status < 300:
                    return Outcome.DELIVERED
                if not self._is_worth_retrying(reply.status):
                    self._complain_refused(path, reply)
                    return Outcome.REFUSED
            asked_s = reply.retry_after_s if reply is not None else None
            if not self._pause(max(pause_s, min(asked_s or 0.0, _MAX_RETRY_AFTER_S))):
                return Outcome.ABANDONED
            pause_s = min(pause_s * 2, self._max_pause_s)

    def close_by(self, timeout_s: float) -> None:
        """From now on give up after `timeout_s`, and at once on a receiver never reached."""
        self._deadline_ns = self._clock.monotonic_ns() + int(timeout_s * _NS_PER_S)
        self._closing.set()

    def close(self) -> None:
        """Close the connection."""
        self._post.close()

    def _attempt(self, path: str, body: bytes) -> Reply | None:
        timeout_s = _ATTEMPT_TIMEOUT_S
        if self._closing.is_set():
            timeout_s = min(timeout_s, max(self._remaining_s(), 0.1))
        try:
            return self._post.post(path, body, self._find_token(), timeout_s)
        except ReceiverUnreachable as error:
            self._complaints.report(
                "receiver_unreachable",
                "no receiver at %s; trying again in the background, keeping the newest records",
                error,
            )
            return None

    def _find_token(self) -> str | None:
        if not self._is_token_read:
            self._is_token_read = True
            try:
                self._token = self._read_token()
            except InvalidSetting as error:
                self._token = None
                self._complaints.report("invalid_setting", "%s", error)
        return self._token

    def _is_worth_retrying(self, status: int) -> bool:
        if status in _BUSY_STATUSES:
            return True
        if status == _NO_TOKEN and not self._closing.is_set():
            self._is_token_read = False
            self._complaints.report(
                "token_refused",
                "the receiver refuses the token (HTTP %d); "
                "set LONGPOLE_TOKEN or LONGPOLE_TOKEN_FILE",
                status,
            )
            return True
        return False

    def _complain_refused(self, path: str, reply: Reply) -> None:
        if reply.status == _NOT_ALLOWED:
            # The next batch is sent with what the file of the token holds by then.
            self._is_token_read = False
        self._complaints.report(
            f"refused_{reply.status}",
            "the receiver refuses %s (HTTP %d); dropping it%s",
            path,
            reply.status,
            f": {reply.message}" if reply.message else "",
        )

    def _pause(self, pause_s: float) -> bool:
        """Wait before the next attempt; returns False when there is to be none."""
        if self._closing.is_set():
            remaining_s = self._remaining_s()
            if remaining_s <= 0 or not self._was_reached:
                return False
            time.sleep(min(self._first_pause_s, remaining_s))
            return True
        self._closing.wait(pause_s * self._random.uniform(0.8, 1.2))
        return True

    def _remaining_s(self) -> float:
        return (self._deadline_ns - self._clock.monotonic_ns()) / _NS_PER_S
