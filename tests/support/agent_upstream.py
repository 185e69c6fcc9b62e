"""A server as the agent sees it: keeps what it gets, answers as the test says."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.agent_waiting import wait_until


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def batch_id(self) -> str:
        return self.headers["longpole-batch-id"]


class FakeServer:
    """Listens on a free port, or again on the one it had, until closed.

    Attributes:
        answer: Gives status and headers for a request; may block.
        accepted: Requests that were answered with 2xx, in order.
        requests: All requests, in order.
        date_s: What its answers name as their date, unless it is that of the clock.
    """

    def __init__(self, port: int = 0) -> None:
        self.answer: Callable[[Request], tuple[int, dict[str, str]]] = lambda _: (200, {})
        self.accepted: list[Request] = []
        self.requests: list[Request] = []
        self.num_connections = 0
        self.date_s: float | None = None
        self._server = _Server(("127.0.0.1", port), _make_handler(self))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, num_accepted: int, path: str = "") -> list[Request]:
        """Return the accepted requests to `path` once there are so many."""
        wait_until(lambda: len(self.accepted_at(path)) >= num_accepted)
        return self.accepted_at(path)

    def accepted_at(self, path: str) -> list[Request]:
        return [request for request in list(self.accepted) if request.path.startswith(path)]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.close_connections()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connections: list[Any] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.append(request)
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Connections that the test cuts are no errors."""

    def close_connections(self) -> None:
        for connection in self.connections:
            try:
                connection.shutdown(2)
            except OSError:
                continue


def _make_handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            server.num_connections += 1

        def do_POST(self) -> None:
            num_bytes = int(self.headers["content-length"])
            body = self.rfile.read(num_bytes)
            if len(body) < num_bytes:  # the agent was killed while sending
                self.close_connection = True
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, headers, body)
            server.requests.append(request)
            status, answer_headers = server.answer(request)
            if 200 <= status < 300:
                server.accepted.append(request)
            if status == 0:  # no answer at all
                self.close_connection = True
                return
            text = b"" if status < 300 else b"the server says no"
            self.send_response(status)
            for name, value in {**answer_headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(server.date_s if timestamp is None else timestamp)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
            """Say nothing."""

    return Handler
