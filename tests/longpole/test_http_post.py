import random
import socket
import threading

import pytest
from google.rpc.status_pb2 import Status as StatusMessage

from longpole import __version__
from longpole.errors import ReceiverUnreachable
from longpole.http_post import HttpPost, Reply
from longpole.settings import read_settings
from support.sdk_receiver import FakeReceiver


def build(endpoint: str) -> HttpPost:
    return HttpPost(read_settings(endpoint, None, {}))


def test_posts_protobuf_with_the_token() -> None:
    with FakeReceiver() as receiver:
        post = build(receiver.endpoint + "/prefix/")
        assert post.post("/v1/logs", b"\x01", "secret", 60.0) == Reply(200)
        assert post.post("/v1/logs", b"\x02", None, 60.0) == Reply(200)
        post.close()
        first, second = receiver.requests
    assert (first.path, first.body) == ("/prefix/v1/logs", b"\x01")
    assert first.headers["content-type"] == "application/x-protobuf"
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["user-agent"] == f"longpole/{__version__}"
    assert "authorization" not in second.headers


def test_headers_of_the_otlp_environment_are_sent() -> None:
    with FakeReceiver() as receiver:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,x=1",
        }
        post = HttpPost(read_settings(None, None, environ))
        post.post("/v1/logs", b"", None, 60.0)
        post.close()
    assert receiver.requests[0].headers["api-key"] == "a b"
    assert receiver.requests[0].headers["x"] == "1"


@pytest.mark.parametrize(("value", "pause_s"), [("7", 7.0), ("soon", None), (None, None)])
def test_reports_status_and_asked_pause(value: str | None, pause_s: float | None) -> None:
    with FakeReceiver() as receiver:
        receiver.behaviour.statuses = [503]
        receiver.behaviour.headers = {} if value is None else {"Retry-After": value}
        post = build(receiver.endpoint)
        assert post.post("/v1/logs", b"", None, 60.0) == Reply(503, pause_s)
        post.close()


PROTOBUF = "application/x-protobuf"
STATUS = StatusMessage(code=7, message="Choose another\n run id.\x1b[1m")
STATUS.details.add().type_url = "type.googleapis.com/google.rpc.RetryInfo"


@pytest.mark.parametrize(
    ("media_type", "content", "message"),
    [
        (PROTOBUF, STATUS.SerializeToString(), "Choose another run id. [1m"),
        (PROTOBUF, b"\xff\xff", ""),
        ("text/plain; charset=utf-8", b"no \xff telemetry\n", "no \ufffd telemetry"),
        ("text/plain", b"x" * 100_000, "x" * 500),
        ("text/html", b"<html>", ""),
    ],
)
def test_tells_in_one_line_why_the_receiver_refuses(
    media_type: str, content: bytes, message: str
) -> None:
    with FakeReceiver() as receiver:
        receiver.behaviour.statuses = [403]
        receiver.behaviour.headers = {"Content-Type": media_type}
        receiver.behaviour.content = content
        post = build(receiver.endpoint)
        assert post.post("/v1/logs", b"", None, 60.0) == Reply(403, message=message)
        receiver.behaviour.content = b""
        assert post.post("/v1/logs", b"", None, 60.0) == Reply(200)
        post.close()


def test_connection_closed_while_idle_is_opened_anew() -> None:
    with FakeReceiver() as receiver:
        receiver.behaviour.closes_connection = True
        post = build(receiver.endpoint)
        for _ in range(3):
            assert post.post("/v1/logs", b"", None, 60.0) == Reply(200)
        post.close()
    assert len(receiver.requests) == 3


def test_nobody_there_and_nobody_answering_are_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ReceiverUnreachable, match="timed out"):
            build(f"http://127.0.0.1:{port}").post("/v1/logs", b"", None, 0.05)
    with pytest.raises(ReceiverUnreachable, match=f"127.0.0.1:{port}"):
        build(f"http://127.0.0.1:{port}").post("/v1/logs", b"", None, 60.0)


def test_receiver_that_speaks_no_http_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(ReceiverUnreachable):
            build(f"http://127.0.0.1:{server.getsockname()[1]}").post("/v1/logs", b"", None, 60.0)
        thread.join()


def test_large_bodies_are_compressed_on_the_way_to_far_receivers() -> None:
    with FakeReceiver() as receiver:
        post = HttpPost(read_settings(receiver.endpoint, None, {}), is_compressing=True)
        post.post("/v1/traces", b"a" * 5000, None, 60.0)
        post.post("/v1/traces", b"small", None, 60.0)
        post.close()
    large, small = receiver.requests
    assert (large.headers["content-encoding"], large.body) == ("gzip", b"a" * 5000)
    assert "content-encoding" not in small.headers


def test_random_state_that_the_trainer_seeded_is_left_alone() -> None:
    random.seed(0)
    state = random.getstate()
    with FakeReceiver() as receiver:
        post = build(receiver.endpoint)
        post.post("/v1/logs", b"", None, 60.0)
        post.close()
    assert random.getstate() == state
