"""Slack: an incoming webhook, or a bot that answers in threads and changes its messages."""
# The SDK's answers carry no complete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import http.client
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, Any

import orjson
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError

from longpole_server.delivery.notice import Notice, Thread
from longpole_server.delivery.picture import Picture
from longpole_server.delivery.slack_blocks import make_blocks, make_fallback
from longpole_server.errors import DeliveryError

_logger = logging.getLogger(__name__)

_TIMEOUT_S = 10
# Its answers are a word.
_MAX_ANSWER_BYTES = 4096
_TAKEN = "ok"
# What Slack says of a message that it will never take.
_FINAL_ERRORS = frozenset(
    {"invalid_payload", "invalid_blocks", "msg_too_long", "msg_blocks_too_long", "no_text"}
)
# What it says of a message that cannot be changed any more.
_UNCHANGEABLE = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found"}
)
_MAX_ERROR = 200
_MAX_PICTURES = 3
_MAX_TITLE, _MAX_ALT_TEXT = 200, 900


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes an answer that leads elsewhere an error, as any other that is not 200."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002 - of no interest, as all of them
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: http.client.HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Lead nowhere."""
        return


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a webhook said, as far as it is read."""

    status: int
    headers: Mapping[str, str]
    text: str


class SlackWebhook:
    """An incoming webhook of one Slack channel.

    Args:
        url: The webhook's secret address.
        timeout_s: Seconds until an answer is given up.
    """

    name = "slack"
    kind = "slack_webhook"

    def __init__(self, url: str, timeout_s: int = _TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s

    def send(self, notice: Notice) -> str:
        """Deliver a notice; a webhook does not say what it calls it.

        Raises:
            DeliveryError: It was not taken, or nobody knows.
        """
        document = {"text": make_fallback(notice), "blocks": make_blocks(notice)}
        answer: _Answer = _call(lambda: self._post(orjson.dumps(document)))
        said = answer.text.strip()
        if answer.status == HTTPStatus.OK and said == _TAKEN:
            return ""
        if answer.status == HTTPStatus.OK:
            raise DeliveryError(
                "Slack answered something else than `ok`: a proxy may stand between"
            )
        raise DeliveryError(
            f"Slack answered {answer.status}{_name_error(said)}",
            _read_retry_after(answer.headers),
            is_final=said in _FINAL_ERRORS,
        )

    def _post(self, body: bytes) -> _Answer:
        request = urllib.request.Request(  # noqa: S310 - the operator's address, see `settings`
            self._url, body, {"Content-Type": "application/json; charset=utf-8"}, method="POST"
        )
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            answer = opener.open(request, timeout=self._timeout_s)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            text = answer.read(_MAX_ANSWER_BYTES).decode(errors="replace")
            return _Answer(answer.status or 0, dict(answer.headers.items()), text)


class SlackBot:
    """A bot in one Slack channel: answers in the alert's thread, and strikes off what is over.

    Args:
        token: The bot's secret token.
        channel: Id or name of the channel.
        base_url: Of Slack's API.
        timeout_s: Seconds until an answer is given up.
    """

    name = "slack-bot"
    kind = "slack_bot"

    def __init__(
        self,
        token: str,
        channel: str,
        base_url: str = WebClient.BASE_URL,
        timeout_s: int = _TIMEOUT_S,
    ) -> None:
        silent = logging.Logger("slack bot", logging.CRITICAL)
        self._channel = channel
        self._client = WebClient(
            token, base_url=base_url, timeout=timeout_s, retry_handlers=[], logger=silent
        )

    def send(self, notice: Notice) -> str:
        """Deliver a notice and return `<channel id>/<ts>`.

        Raises:
            DeliveryError: It was not taken, or nobody knows.
        """
        # Changing twice is no harm, answering twice is: what can fail comes first.
        for root in notice.outdated:
            self._update(root)
        thread = notice.thread
        if thread is None:
            remote_id = self._post(notice, None)
            self._show_evidence(notice, remote_id)
            return remote_id
        self._update(thread)
        return self._post(notice, thread.remote_id.partition("/")[2])

    def _update(self, root: Thread) -> None:
        notice = root.notice
        channel_id, _, ts = root.remote_id.partition("/")
        try:
            _call(
                lambda: self._client.chat_update(
                    channel=channel_id,
                    ts=ts,
                    text=make_fallback(notice),
                    blocks=make_blocks(notice),
                ),
                is_change=True,
            )
        except DeliveryError as error:
            if not error.is_final:
                raise
            _logger.warning("message %s stays as it was: %s", notice.message_id, error.message)

    def _show_evidence(self, notice: Notice, remote_id: str) -> None:
        """Put pictures into the thread of a message; one that fails costs nothing else."""
        channel_id, _, ts = remote_id.partition("/")
        shown: set[str] = set()
        for event in notice.events:
            if event.kind == "resolved" or event.rule in shown or len(shown) >= _MAX_PICTURES:
                continue
            try:
                picture = notice.draw(event)
            except Exception:
                # The message is out: it must not go out again for want of a picture.
                _logger.exception("message %s comes without a picture", notice.message_id)
                return
            if picture is None:
                continue
            shown.add(event.rule)
            try:
                self._upload(picture, channel_id, ts)
            except DeliveryError as error:
                _logger.warning("a picture for message %s: %s", notice.message_id, error.message)
                return

    def _upload(self, picture: Picture, channel_id: str, thread_ts: str) -> None:
        _call(
            lambda: self._client.files_upload_v2(
                filename="evidence.png",
                file=picture.png,
                title=picture.title[:_MAX_TITLE],
                alt_txt=picture.alt_text[:_MAX_ALT_TEXT],
                channel=channel_id,
                thread_ts=thread_ts,
            )
        )

    def _post(self, notice: Notice, thread_ts: str | None) -> str:
        answer = _call(
            lambda: self._client.chat_postMessage(
                channel=self._channel,
                text=make_fallback(notice),
                blocks=make_blocks(notice),
                thread_ts=thread_ts,
                # Nobody is called by an answer in a thread.
                reply_broadcast=thread_ts is not None and _is_repeated(notice),
                unfurl_links=False,
            )
        )
        ts = answer.get("ts")
        if not isinstance(ts, str):
            raise DeliveryError("Slack did not say what became of the message")
        return f"{answer.get('channel') or self._channel}/{ts}"


def _is_repeated(notice: Notice) -> bool:
    return any(
        event.kind == "repeated" and not notice.is_event_over(event) for event in notice.events
    )


def _call(request: Callable[[], Any], *, is_change: bool = False) -> Any:  # noqa: ANN401 - two kinds of answers of the SDK
    """Make a request; the SDK's errors, which may hold the address, become our own without it."""
    try:
        return request()
    except SlackApiError as error:
        answer = error.response
        reason = str(answer.get("error") or "")[:_MAX_ERROR]
        raise DeliveryError(
            f"Slack answered {answer.status_code}{_name_error(reason)}",
            _read_retry_after(answer.headers),
            is_final=reason in _FINAL_ERRORS or (is_change and reason in _UNCHANGEABLE),
        ) from None
    except TimeoutError:
        raise DeliveryError("Slack did not answer in time") from None
    except (OSError, SlackClientError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None)
        kind = type(reason if isinstance(reason, Exception) else error).__name__
        raise DeliveryError(f"Slack could not be reached: {kind}") from None


def _name_error(text: str) -> str:
    """Return Slack's short code of an error; anything else may be somebody else's page.

    Its codes have small letters; what has others may be the secret part of an address, sent back.
    """
    is_code = text.replace("_", "").isalnum() and text.islower() and len(text) <= 64
    return f": {text}" if is_code else ""


def _read_retry_after(headers: Mapping[str, Any]) -> float | None:
    for name, value in headers.items():
        if name.lower() == "retry-after":
            try:
                return max(0.0, float(value[0] if isinstance(value, list) else value))
            except ValueError:
                return None
    return None
