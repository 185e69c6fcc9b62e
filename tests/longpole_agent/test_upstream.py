import email.utils
import socket
from collections.abc import Iterator

import pytest

from longpole_agent.batch import Batch
from longpole_agent.errors import ConfigError
from longpole_agent.upstream import HttpUpstream
from support.agent_upstream import FakeServer

BATCH = Batch("metrics", b"\x1f\x8bbody", "application/x-protobuf", "gzip", "agent/boot")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    made = FakeServer()
    yield made
    made.close()


def test_a_batch_arrives_as_it_is_with_its_id_and_the_token(server: FakeServer) -> None:
    upstream = HttpUpstream(f"{server.url}/longpole/", token="secret")
    assert upstream.post(BATCH, "agent/boot/1").status == 200
    (request,) = server.requests
    assert request.path == "/longpole/v1/metrics"
    assert request.body == BATCH.body
    assert request.headers["content-type"] == "application/x-protobuf"
    assert request.headers["content-encoding"] == "gzip"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["longpole-batch-id"] == "agent/boot/1"
    upstream.close()


def test_no_token_and_no_encoding_are_no_headers(server: FakeServer) -> None:
    upstream = HttpUpstream(server.url)
    upstream.post(Batch("logs", b"{}", "application/json", "", "a/b"), "a/b/1")
    assert server.requests[0].headers.keys().isdisjoint({"authorization", "content-encoding"})
    upstream.close()


def test_one_connection_is_kept(server: FakeServer) -> None:
    upstream = HttpUpstream(server.url)
    for number in range(20):
        assert upstream.post(BATCH, f"a/b/{number}").status == 200
    assert server.num_connections == 1
    upstream.close()


def test_a_kept_connection_that_the_server_closed_is_replaced(server: FakeServer) -> None:
    upstream = HttpUpstream(server.url)
    assert upstream.post(BATCH, "a/b/1").status == 200
    server.close()
    again = FakeServer(server.port)
    assert upstream.post(BATCH, "a/b/2").status == 200
    again.close()
    upstream.close()


def test_a_server_that_breaks_off_is_no_answer(server: FakeServer) -> None:
    server.answer = lambda _: (0, {})
    upstream = HttpUpstream(server.url)
    answer = upstream.post(BATCH, "a/b/1")
    assert answer.status is None
    assert answer.reason
    upstream.close()


def test_nobody_there_is_no_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        upstream = HttpUpstream(f"http://127.0.0.1:{taken.getsockname()[1]}")
        answer = upstream.post(BATCH, "a/b/1")
        assert answer.status is None
        assert answer.reason == "Connection refused"


def test_an_impossible_host_is_no_answer() -> None:
    answer = HttpUpstream(f"http://{'a' * 300}:1").post(BATCH, "a/b/1")
    assert answer.status is None
    assert answer.reason


def test_a_refusal_comes_with_its_reason_and_the_wait(server: FakeServer) -> None:
    upstream = HttpUpstream(server.url, now_s=lambda: 1_000_000.0)
    server.answer = lambda _: (429, {"Retry-After": "7"})
    answer = upstream.post(BATCH, "a/b/1")
    assert (answer.status, answer.reason, answer.retry_after_s) == (429, "the server says no", 7.0)
    date = email.utils.formatdate(1_000_030, usegmt=True)
    server.answer = lambda _: (503, {"Retry-After": date})
    assert upstream.post(BATCH, "a/b/1").retry_after_s == pytest.approx(30.0)
    server.answer = lambda _: (503, {"Retry-After": "whenever"})
    assert upstream.post(BATCH, "a/b/1").retry_after_s is None
    upstream.close()


def test_the_servers_date_tells_how_far_the_clocks_are_apart(server: FakeServer) -> None:
    server.date_s = 1_000_040
    upstream = HttpUpstream(server.url, now_s=lambda: 1_000_000.0)
    assert upstream.post(BATCH, "a/b/1").clock_ahead_s == -40.5
    upstream.close()
    slow = iter([100.0, 110.0] * 9)
    upstream = HttpUpstream(server.url, now_s=lambda: next(slow))
    assert upstream.post(BATCH, "a/b/2").clock_ahead_s is None, "it took too long to tell"
    upstream.close()


@pytest.mark.parametrize("status", [200, 400])
def test_a_web_page_is_no_answer_of_a_longpole_server(server: FakeServer, status: int) -> None:
    server.answer = lambda _: (status, {"Content-Type": "text/html; charset=utf-8"})
    upstream = HttpUpstream(server.url)
    answer = upstream.post(BATCH, "a/b/1")
    assert answer.status is None
    assert answer.reason.startswith(f"{status} and a web page")
    upstream.close()


def test_a_header_that_cannot_be_is_no_answer(server: FakeServer) -> None:
    upstream = HttpUpstream(server.url)
    answer = upstream.post(Batch("logs", b"", "a\nb", "", "a/b"), "a/b/1")
    assert answer.status is None
    assert server.requests == []
    upstream.close()


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8470", "ftp://x", "http://", "http://a:b", "http://a:99999", "http://[::1"],
)
def test_no_address_is_a_clear_error(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server"):
        HttpUpstream(url)
