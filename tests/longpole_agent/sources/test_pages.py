import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from longpole_agent.sources.pages import HttpPages, PageError, PageGoneError

PATIENCE_S = 60.0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, PageServer)
        server.paths.append(self.path)
        self.send_response(server.status)
        if server.location:
            self.send_header("Location", server.location)
        if server.length is not None:
            self.send_header("Content-Length", str(server.length))
        self.end_headers()
        if server.hangs is not None:
            self.wfile.write(b"vllm:x")
            self.wfile.flush()
            server.hangs.wait(PATIENCE_S)
        self.wfile.write(server.page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class says so
        pass


class PageServer(ThreadingHTTPServer):
    daemon_threads = True
    status = 200
    page = b"vllm:x 1\n"
    hangs: threading.Event | None = None
    length: int | None = None
    location = ""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.paths: list[str] = []

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.server_port}"


@pytest.fixture
def server() -> Iterator[PageServer]:
    server = PageServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    if server.hangs is not None:
        server.hangs.set()
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_is_read(server: PageServer) -> None:
    assert HttpPages(PATIENCE_S)(server.target) == "vllm:x 1\n"


def test_a_page_has_a_size(server: PageServer) -> None:
    server.page = b"x" * 2000
    with pytest.raises(PageError, match="larger"):
        HttpPages(PATIENCE_S, max_bytes=1000)(server.target)


def test_a_page_that_ends_before_its_end_is_none(server: PageServer) -> None:
    server.length = 100
    with pytest.raises(PageGoneError, match="cut off"):
        HttpPages(PATIENCE_S)(server.target)


def test_only_success_is_a_page(server: PageServer) -> None:
    server.status = 404
    with pytest.raises(PageError, match="404"):
        HttpPages(PATIENCE_S)(server.target)


def test_a_page_that_never_ends_is_left(server: PageServer) -> None:
    server.hangs = threading.Event()
    with pytest.raises(PageError):
        HttpPages(timeout_s=0.2)(server.target)


@pytest.mark.parametrize(
    ("target", "error"),
    [("127.0.0.1:1", PageGoneError), ("no.such.host.invalid:80", PageError)],
)
def test_nobody_there(target: str, error: type[PageError]) -> None:
    with pytest.raises(error):
        HttpPages(timeout_s=2.0)(target)


@pytest.mark.parametrize(
    "target",
    ["169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:80", "[::]:80", "224.0.0.1:80",
     "[::ffff:169.254.169.254]:80", "2852039166:80", "0xa9fea9fe:80", "0251.0376.0251.0376:80",
     "169.16689662:80", "100.100.100.200:80", "168.63.129.16:80", "[fd00:ec2::254]:80",
     "[64:ff9b::a9fe:a9fe]:80", "[2002:a9fe:a9fe::]:80", "[::a9fe:a9fe]:80"],
)  # fmt: skip
def test_an_address_that_no_page_can_have_is_not_connected_to(target: str) -> None:
    """Names may mean such an address too: what counts is what they mean."""
    with pytest.raises(PageError, match="no address of a page"):
        HttpPages()(target)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1%eth0", "::ffff:169.254.169.254", "0.0.0.0", "100.100.100.200",
     "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::"],
)  # fmt: skip
def test_a_name_that_means_such_an_address_is_not_connected_to(address: str) -> None:
    pages = HttpPages(resolve=lambda host, port: [address])
    with pytest.raises(PageError, match="no address of a page"):
        pages("trainer.example:9092")


def test_a_name_that_means_another_address_the_second_time_is_looked_up_once(
    server: PageServer,
) -> None:
    """What was judged is what is connected to, or the answer could change in between."""
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(f"{host}:{port}")
        return answers.pop(0)

    pages = HttpPages(PATIENCE_S, resolve=resolve)
    target = f"trainer.example:{server.server_port}"
    assert pages(target) == "vllm:x 1\n"
    assert asked == [target]
    with pytest.raises(PageError, match="no address of a page"):
        pages(target)


def test_of_several_addresses_the_one_that_is_judged_is_connected_to(server: PageServer) -> None:
    port = server.server_port
    here, elsewhere = "127.0.0.1", "169.254.169.254"
    good_first = HttpPages(PATIENCE_S, resolve=lambda host, port: [here, elsewhere])
    assert good_first(f"trainer.example:{port}") == "vllm:x 1\n"
    bad_first = HttpPages(PATIENCE_S, resolve=lambda host, port: [elsewhere, here])
    with pytest.raises(PageError, match="no address of a page"):
        bad_first(f"trainer.example:{port}")


@pytest.mark.parametrize("answer", [[], OSError("no such name"), UnicodeError("no name")])
def test_a_name_without_an_address_is_no_page(answer: "list[str] | Exception") -> None:
    def resolve(host: str, port: int) -> list[str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(PageError, match="no address of 'trainer"):
        HttpPages(resolve=resolve)("trainer.example:80")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_page_that_leads_elsewhere_is_none(server: PageServer, status: int) -> None:
    server.status = status
    server.location = f"http://{server.target}/elsewhere"
    with pytest.raises(PageError, match=str(status)):
        HttpPages(PATIENCE_S)(server.target)
    assert server.paths == ["/metrics"]


@pytest.mark.parametrize(
    "beginning",
    [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"],
)  # fmt: skip
def test_a_page_that_comes_a_letter_at_a_time_holds_a_reader_no_longer_than_its_time(
    beginning: bytes,
) -> None:
    """Each letter comes soon: it is all of them together that have a time."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        given_up = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65_536)
                connection.sendall(beginning)
                for _ in range(100):
                    if given_up.wait(0.02):
                        return
                    connection.sendall(b"0")
                # A whole page in the end, for who has waited.
                connection.sendall(b"\r\nContent-Length: 0\r\n\r\n\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(PageError, match="within"):
                HttpPages(timeout_s=0.2)(f"127.0.0.1:{listener.getsockname()[1]}")
        finally:
            given_up.set()
            thread.join()
