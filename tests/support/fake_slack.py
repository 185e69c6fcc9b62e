"""A Slack on loopback: a webhook and the two methods a bot needs, misbehaving as a test asks.

Every message is checked against Slack's limits. What was taken is what Slack would show.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs

SECRET_PATH = "/services/T000/B000/very-secret-word"
SECRET_TOKEN = "xoxb-very-secret-word"
# What it does with a request; `drop` takes the message and dies before it answers.
Behaviour = Literal[
    "ok",
    "429",
    "500",
    "400",
    "403",
    "timeout",
    "garbage",
    "page",
    "drop",
    "gone",
    "echo",
    "redirect",
    "flood",
]
_TIMEOUT_S = 60.0


class FakeSlack:
    """What it took, and what it does next.

    Attributes:
        num_led_elsewhere: Requests of who followed the answer `redirect`.
        taken: Bodies of webhook messages and of `chat.postMessage`, in order.
        updates: Bodies of `chat.update`.
        uploads: Files by id; `shown` are the threads into which they were put.
        script: What it does with the next requests; afterwards `default`.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.taken: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.uploads: dict[str, bytes] = {}
        self.shown: list[dict[str, Any]] = []
        self.script: deque[Behaviour] = deque()
        self.default: Behaviour = "ok"
        self.retry_after_s = 7
        self.num_requests = 0
        self.problems: list[str] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.num_led_elsewhere = 0

    @property
    def webhook_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{SECRET_PATH}"

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api/"

    def titles(self) -> list[str]:
        """The headers of what was taken."""
        return [body["blocks"][0]["text"]["text"] for body in self.taken]

    def message_ids(self) -> list[str]:
        """The ids that our messages carry."""
        return [
            body["blocks"][-1]["elements"][0]["text"].removeprefix("message ")
            for body in self.taken
        ]

    def next_behaviour(self) -> Behaviour:
        with self.lock:
            self.num_requests += 1
            return self.script.popleft() if self.script else self.default


def find_problems(body: dict[str, Any]) -> list[str]:
    """Return which of Slack's limits a message breaks."""
    problems: list[str] = []
    blocks = body.get("blocks", [])
    if not body.get("text"):
        problems.append("no fallback text")
    if not 1 <= len(blocks) <= 50:
        problems.append(f"{len(blocks)} blocks")
    num_letters = len(json.dumps(blocks, ensure_ascii=False))
    if num_letters > 13_000:
        problems.append(f"{num_letters} letters in all")
    for block in blocks:
        text = block.get("text", {}).get("text", "x")
        limit = 150 if block["type"] == "header" else 3_000
        if not 1 <= len(text) <= limit:
            problems.append(f"a {block['type']} of {len(text)} letters")
        for element in block.get("elements", []):
            if not 1 <= len(element["text"]) <= 3_000:
                problems.append("a context that is empty or too long")
        if len(block.get("elements", [])) > 10:
            problems.append("too many elements")
    return problems


@contextmanager
def running_slack(port: int = 0) -> Generator[FakeSlack]:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    server.daemon_threads = True
    slack = FakeSlack(server.server_address[1])
    server.slack = slack  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield slack
    finally:
        slack.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    @property
    def slack(self) -> FakeSlack:
        return self.server.slack  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        # Only who follows an answer elsewhere asks so.
        self.slack.num_led_elsewhere += 1
        self._answer(200, b"ok")

    def do_POST(self) -> None:
        if self.path.startswith("/upload/"):
            self._take_upload()
            return
        body = self._read_body()
        is_webhook = self.path == SECRET_PATH
        behaviour = self.slack.next_behaviour()
        if behaviour == "timeout":
            self.slack.released.wait(_TIMEOUT_S)
            self.close_connection = True
        elif behaviour == "flood":
            self._flood()
        elif behaviour == "drop":
            self._take(body)
            self.close_connection = True
        elif behaviour == "ok" and "/api/files." in self.path:
            self._answer_file(body)
        elif behaviour == "ok":
            self._answer_ok(body, is_webhook=is_webhook)
        else:
            self._misbehave(behaviour, is_webhook=is_webhook)

    def _answer_ok(self, body: dict[str, Any], *, is_webhook: bool) -> None:
        problems = find_problems(body)
        if problems:
            self.slack.problems += problems
            self._answer(400, b"invalid_blocks")
            return
        ts = self._take(body)
        answer = {"ok": True, "channel": "C042", "ts": ts}
        self._answer(200, b"ok" if is_webhook else json.dumps(answer).encode())

    def _answer_file(self, body: dict[str, Any]) -> None:
        """The two methods around an upload, in the way of Slack's second version."""
        slack = self.slack
        answer: dict[str, Any] = {"ok": True}
        if self.path.endswith("files.getUploadURLExternal"):
            with slack.lock:
                name = f"F{len(slack.uploads) + 1:03}"
                slack.uploads[name] = b""
            if len(body.get("alt_txt", "")) > 1_000:
                slack.problems.append("alt text too long")
            url = f"http://127.0.0.1:{slack.port}/upload/{name}/very-secret-word"
            answer |= {"file_id": name, "upload_url": url}
        else:
            files = json.loads(body["files"])
            slack.shown.append({**body, "files": files})
            answer["files"] = files
        self._answer(200, json.dumps(answer).encode())

    def _take_upload(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.slack.uploads[self.path.split("/")[2]] = data
        self._answer(200, b"OK - 1")

    def _take(self, body: dict[str, Any]) -> str:
        with self.slack.lock:
            if self.path.endswith("chat.update"):
                self.slack.updates.append(body)
            else:
                self.slack.taken.append(body)
            return f"{time.time():.0f}.{len(self.slack.taken):06}"

    def _misbehave(self, behaviour: Behaviour, *, is_webhook: bool) -> None:
        match behaviour:
            case "429":
                text = b"rate_limited" if is_webhook else b'{"ok": false, "error": "ratelimited"}'
                self._answer(429, text, {"Retry-After": str(self.slack.retry_after_s)})
            case "500":
                self._answer(500, b"rollup_error")
            case "400":
                body = b"invalid_blocks" if is_webhook else b'{"ok":false,"error":"invalid_blocks"}'
                self._answer(400 if is_webhook else 200, body)
            case "403":
                self._answer(403, b"action_prohibited")
            case "page":
                self._answer(200, b"<html>Please sign in</html>")
            case "echo":
                self._answer(404, b"very0secret0Word")
            case "redirect":
                self._answer(302, b"", {"Location": f"http://127.0.0.1:{self.slack.port}/inside"})
            case "gone":
                self._answer(200, b'{"ok": false, "error": "message_not_found"}')
            case _:
                self.wfile.write(b"\x00\xff nothing like HTTP")
                self.close_connection = True

    def _flood(self) -> None:
        """Answer without an end, until nobody listens."""
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while not self.slack.released.is_set():
                self.wfile.write(b"x" * 65_536)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _read_body(self) -> dict[str, Any]:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if "json" in self.headers.get("Content-Type", ""):
            return json.loads(raw)
        values: dict[str, Any] = {name: found[-1] for name, found in parse_qs(raw.decode()).items()}
        if "blocks" in values:
            values["blocks"] = json.loads(values["blocks"])
        return values

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""
