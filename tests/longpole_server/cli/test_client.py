"""Whatever a server answers, or does not, the command line has one error for it."""

import io
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from longpole_server.cli import diagnose
from longpole_server.cli.client import ServerClient, read_token
from longpole_server.errors import ConfigError, NotFoundError, ServerError


@contextmanager
def answering(payload: bytes) -> Generator[str]:
    """Serve these bytes, status line included, to every request; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(payload)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base names it
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def http(status: str, body: bytes) -> bytes:
    return f"HTTP/1.0 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (http("200 OK", b"<html>"), "something else than JSON"),
        (http("200 OK", b"[1, 2]"), "something else than an object"),
        (http("200 OK", b"\xff\xfe"), "something else than JSON"),
        (b"", "does not answer"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{", "does not answer|something else"),
        (http("500 Oops", b"not json"), "answered 500 Oops"),
        (http("503 Busy", b'{"error": {"message": "come back", "hint": ""}}'), "come back"),
    ],
)
def test_a_strange_answer_is_one_error(payload: bytes, message: str) -> None:
    with answering(payload) as address, pytest.raises(ServerError, match=message):
        ServerClient(address, None).get("/runs")


def test_a_download_that_broke_off_is_no_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    with answering(http("200 OK", b"whole")) as address:
        ServerClient(address, None).download("/export/rows", file)
    assert file.read_bytes() == b"whole"
    file.unlink()
    torn = b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\nthe first bytes"
    with answering(torn) as address, pytest.raises(ServerError, match="15 bytes of 99"):
        ServerClient(address, None).download("/export/rows", file)
    assert not file.exists()


def test_an_error_of_the_api_keeps_its_message_and_hint() -> None:
    body = b'{"error": {"code": "not_found", "message": "No run x.", "hint": "See /runs."}}'
    with answering(http("404 Not Found", body)) as address, pytest.raises(NotFoundError) as caught:
        ServerClient(address, None).get("/runs/x")
    assert (caught.value.message, caught.value.hint) == ("No run x.", "See /runs.")


@contextmanager
def refusing_before_it_reads(payload: bytes) -> Generator[str]:
    """Answer every request when its head has come, and break off."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(1000)
                connection.sendall(payload)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def test_a_refusal_while_a_large_log_is_sent_is_told() -> None:
    body = b'{"error": {"code": "x", "message": "This server wants its token.", "hint": ""}}'
    log = io.BytesIO(b"x" * (20 << 20))
    with (
        refusing_before_it_reads(http("401 Unauthorized", body)) as address,
        pytest.raises(ServerError, match="wants its token"),
    ):
        ServerClient(address, None).post("/import", log, 20 << 20)


@pytest.mark.parametrize(
    "address",
    ["", "ftp://x", "127.0.0.1:8470", "http://", "http://h:port", "http://h:99999", "http://a b"],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="--server takes an address"):
        ServerClient(address, None)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with answering(http("200 OK", b'{"runs": []}')) as address:
        assert ServerClient(address, None).get("/runs") == {"runs": []}


def test_a_document_of_another_kind_is_no_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(http("200 OK", b'{"ok": true}')) as address:
        assert diagnose.main(["run", "--server", address]) == 1
    assert "something else than longpole.diagnosis/1" in capsys.readouterr().err


def test_a_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file, binary = tmp_path / "token", tmp_path / "binary"
    file.write_text("secret\n")
    binary.write_bytes(b"\xff\xfe")
    assert read_token({}) is None
    assert read_token({"LONGPOLE_TOKEN": "a", "LONGPOLE_TOKEN_FILE": "absent"}) == "a"
    assert read_token({"LONGPOLE_TOKEN_FILE": str(file)}) == "secret"
    for path in (binary, tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigError, match="LONGPOLE_TOKEN_FILE"):
            read_token({"LONGPOLE_TOKEN_FILE": str(path)})
    with pytest.raises(ConfigError, match="token"):
        ServerClient("http://127.0.0.1:1", "two\nlines")
