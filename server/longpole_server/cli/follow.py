"""`longpole import --follow FILE`: a log that grows becomes a run that is alive."""

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from longpole.conventions import attributes as names
from longpole_server.cli.client import ServerClient, quote_segment
from longpole_server.cli.otlp_documents import event_document, metrics_document
from longpole_server.errors import (
    BadRequestError,
    BusyError,
    NotFoundError,
    ServerError,
    UnreadableLogError,
)
from longpole_server.importers.following import (
    AttemptNumbers,
    Follower,
    KnownStep,
    Update,
    survey_backlog,
)
from longpole_server.importers.lines import read_lines
from longpole_server.importers.reading import HEAD_BYTES, find_file_format, parse_lines
from longpole_server.importers.tailing import Tail

Answer = TypeVar("Answer")

_POLL_S = 0.5
# An open step is announced as often as the SDK does.
_HEARTBEAT_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """What to follow, and as what.

    Attributes:
        name: Of the run, for people.
    """

    file: Path
    run_id: str
    name: str


class FollowCommand:
    """Sends what is added to a file until it is stopped.

    Args:
        client: The server.
        options: What to follow.
        now_ns: Wall clock, UTC nanoseconds.
        say: Takes lines for people.
    """

    def __init__(
        self,
        client: ServerClient,
        options: FollowOptions,
        now_ns: Callable[[], int] = time.time_ns,
        say: Callable[[str], None] = print,
    ) -> None:
        self._client = client
        self._options = options
        self._now_ns = now_ns
        self._say = say
        self._stopping = threading.Event()
        self._tail = Tail(options.file, self._wait)
        self._announced: set[int] = set()
        self._open: _OpenStep | None = None
        self._resource: dict[str, str | int] = {}
        self.num_steps = 0

    def stop(self) -> None:
        """End after what was read already."""
        self._stopping.set()

    def run(self) -> None:
        """Follow until `stop`.

        Raises:
            UnreadableLogError: The file cannot be followed.
            BadRequestError: The run was imported already, or its id is refused.
            ServerError: The server refuses what is sent.
        """
        file = self._options.file
        if file.is_dir():
            raise UnreadableLogError(f"{file} is a directory; name a log file in it.")
        if file.exists():
            with file.open("rb") as stream:
                found = find_file_format(stream.read(HEAD_BYTES))
            if found is not None:
                raise UnreadableLogError(
                    f"{file} is no log of lines ({found}), so it cannot be followed.",
                    "Import it when the training has ended.",
                )
        backlog = survey_backlog(file)
        follower = Follower(
            AttemptNumbers(self._list_known(), backlog), backlog, self._options.run_id
        )
        follower.summary.year = time.gmtime(self._now_ns() // 10**9).tm_year
        lines = parse_lines(
            read_lines(self._tail.read_blocks(), follower.summary), follower.summary
        )
        for update in follower.follow(lines):
            self._send(update, follower, backlog.start_ns)

    def _list_known(self) -> dict[int, KnownStep]:
        run = quote_segment(self._options.run_id)
        try:
            if self._retry(lambda: self._client.get(f"/runs/{run}"))["state"] == "imported":
                raise BadRequestError(
                    f"the run {self._options.run_id} was imported from a file",
                    hint="give the one that is followed another id with --run",
                )
        except NotFoundError:
            return {}
        known: dict[int, KnownStep] = {}
        query = ""
        while True:
            page = self._retry(lambda query=query: self._client.get(f"/runs/{run}/steps{query}"))
            for step in page["steps"]:
                known[step["step"]] = KnownStep(step["attempt"], step["duration_s"])
            if not page.get("next"):
                return known
            query = f"?cursor={page['next']}"

    def _send(self, update: Update, follower: Follower, start_ns: int | None) -> None:
        step = update.step
        now_ns = self._now_ns() if update.time_ns is None else update.time_ns
        if not self._resource:
            self._resource = self._describe(follower)
        resource = {**self._resource, names.RUN_ATTEMPT: step.attempt}
        if step.attempt not in self._announced:
            self._announced.add(step.attempt)
            begun_ns = start_ns if update.time_ns is not None and start_ns else now_ns
            self._post_event(
                resource, names.EVENT_RUN_START, {}, begun_ns, f"start/{update.content_id}"
            )
        document = metrics_document(resource, step.step, step.scalars, step.engines, now_ns)
        self._post("/v1/metrics", document, update.content_id)
        self.num_steps += 1
        if self._open is None or step.step >= self._open.step - 1:
            self._open = _OpenStep(resource, step.step + 1, now_ns, self._tail.num_bytes)

    def _describe(self, follower: Follower) -> dict[str, str | int]:
        traits = follower.traits
        said = {
            names.SERVICE_NAME: names.IMPORT_SERVICE,
            names.RUN_ID: self._options.run_id,
            names.RUN_NAME: self._options.name,
            names.ROLE: "controller",
            names.SYSTEM: traits.system,
            names.MODE: traits.mode,
            names.GPU_COUNT: traits.gpu_count,
        }
        return {name: value for name, value in said.items() if value is not None}

    def _wait(self) -> bool:
        """Wait for more of the file; while it grows, say that a step is open."""
        opened = self._open
        if opened is not None and self._tail.num_bytes != opened.num_bytes:
            now_ns = self._now_ns()
            if now_ns - opened.seen_ns >= _HEARTBEAT_S * 1e9:
                opened.seen_ns, opened.num_bytes = now_ns, self._tail.num_bytes
                self._post_event(
                    opened.resource,
                    names.EVENT_STAGE_START,
                    {
                        names.ITERATION: opened.step,
                        names.STAGE: names.STEP_STAGE,
                        names.EVENT_START_NS: opened.start_ns,
                    },
                    now_ns,
                    None,
                )
        return not self._stopping.wait(_POLL_S)

    def _post_event(
        self,
        resource: Mapping[str, str | int],
        event: str,
        attributes: Mapping[str, str | int],
        time_ns: int,
        batch_id: str | None,
    ) -> None:
        self._post("/v1/logs", event_document(resource, event, attributes, time_ns), batch_id)

    def _post(self, path: str, document: Mapping[str, Any], batch_id: str | None) -> None:
        body = json.dumps(document, allow_nan=False).encode()
        headers = {"Content-Type": "application/json"}
        if batch_id is not None:
            headers[names.HEADER_BATCH_ID] = f"follow/{batch_id}"
        self._retry(lambda: self._client.send(path, body, headers))

    def _retry(self, ask: Callable[[], Answer]) -> Answer:
        """Ask until the server answers, or following is stopped."""
        pause_s = _FIRST_PAUSE_S
        while True:
            answer = self._try(ask)
            if not isinstance(answer, ServerError):
                return answer
            self._say(f"longpole import: {answer.message} Trying again.")
            asked_s = answer.retry_after_s if isinstance(answer, BusyError) else 0.0
            self._stopping.wait(max(pause_s, asked_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _try(self, ask: Callable[[], Answer]) -> Answer | ServerError:
        """Return the answer, or an error after which asking again makes sense."""
        try:
            return ask()
        except (BadRequestError, NotFoundError, UnreadableLogError):
            raise
        except ServerError as error:
            if self._stopping.is_set():
                raise
            return error


@dataclass(slots=True)
class _OpenStep:
    """The step that follows the last one said.

    Attributes:
        num_bytes: How much of the file was read when it was last announced.
        seen_ns: When that was.
    """

    resource: Mapping[str, str | int]
    step: int
    start_ns: int
    num_bytes: int
    seen_ns: int = 0


def stop_on_signals(command: FollowCommand) -> None:
    """End following at Ctrl-C and at a request to terminate."""

    def stop(*_: object) -> None:
        command.stop()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
