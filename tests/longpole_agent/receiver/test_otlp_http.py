import gzip
from collections.abc import Sequence

import pytest
from google.rpc.status_pb2 import Status

from longpole.spool import SpoolError
from longpole_agent.batch import Signal
from longpole_agent.errors import BusyError
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.room import Room
from support.agent_asgi import Answer, call

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
LIMIT = 10_000


class Receiver:
    """The application with a store that remembers, or fails as told."""

    def __init__(self, room_bytes: int = 100_000) -> None:
        self.stored: list[tuple[Signal, bytes, str, str]] = []
        self.error: Exception | None = None
        self.room = Room(room_bytes)
        self.health: dict[str, object] = {"status": "ok"}
        self.app = OtlpHttpApp(self._store, self.room, LIMIT, lambda: self.health)

    async def _store(self, signal: Signal, body: bytes, content_type: str, encoding: str) -> None:
        if self.error is not None:
            raise self.error
        self.stored.append((signal, body, content_type, encoding))

    async def post(
        self,
        body: bytes | Sequence[bytes] = b"x",
        content_type: str = PROTOBUF,
        path: str = "/v1/traces",
        **headers: str,
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await call(self.app, "POST", path, body, {"content-type": content_type, **named})
        assert answer is not None
        return answer


@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
@pytest.mark.parametrize(
    ("content_type", "empty"), [(PROTOBUF, b""), (JSON, b"{}"), ("Application/JSON", b"{}")]
)
async def test_a_request_is_stored_as_it_is(
    signal: Signal, content_type: str, empty: bytes
) -> None:
    receiver = Receiver()
    answer = await receiver.post(b"any bytes", content_type, f"/v1/{signal}")
    assert (answer.status, answer.body) == (200, empty)
    assert answer.headers["content-type"] == content_type.lower()
    assert receiver.stored == [(signal, b"any bytes", content_type, "")]


async def test_parameters_of_the_content_type_are_passed_on() -> None:
    receiver = Receiver()
    answer = await receiver.post(b"{}", "application/json; charset=utf-8")
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON
    assert receiver.stored[0][2] == "application/json; charset=utf-8"


async def test_a_body_in_chunks_is_put_together() -> None:
    receiver = Receiver()
    assert (await receiver.post([b"a", b"", b"bc"])).status == 200
    assert receiver.stored[0][1] == b"abc"


async def test_an_empty_request_is_accepted_and_says_nothing() -> None:
    receiver = Receiver()
    assert (await receiver.post(b"")).status == 200
    assert receiver.stored == []


@pytest.mark.parametrize("body", [b"small", b"large" * 1500], ids=["small", "large"])
async def test_gzip_is_checked_and_passed_on_compressed(body: bytes) -> None:
    receiver = Receiver()
    compressed = gzip.compress(body)
    assert (await receiver.post(compressed, content_encoding="gzip")).status == 200
    assert receiver.stored == [("traces", compressed, PROTOBUF, "gzip")]


@pytest.mark.parametrize("encoding", ["identity", ""])
async def test_no_compression_may_be_said(encoding: str) -> None:
    receiver = Receiver()
    assert (await receiver.post(content_encoding=encoding)).status == 200
    assert receiver.stored[0][3] == ""


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_other_methods_are_405(method: str) -> None:
    answer = await call(Receiver().app, method, "/v1/traces")
    assert answer is not None
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.headers["content-type"].startswith("text/plain")


async def test_other_paths_are_404() -> None:
    assert (await Receiver().post(path="/v1/profiles")).status == 404
    assert (await Receiver().post(path="/")).status == 404


@pytest.mark.parametrize("content_type", ["text/plain", "", "application/x-www-form-urlencoded"])
async def test_other_content_types_are_415(content_type: str) -> None:
    receiver = Receiver()
    answer = await receiver.post(content_type=content_type)
    assert answer.status == 415
    assert answer.headers["content-type"].startswith("text/plain")
    assert receiver.stored == []


async def test_other_encodings_are_415() -> None:
    assert (await Receiver().post(content_encoding="br")).status == 415


@pytest.mark.parametrize(
    "body", [b"not gzip", gzip.compress(b"x" * 5000)[:-5], gzip.compress(b"x") + b"rest"]
)
async def test_damaged_gzip_is_400_with_a_status_body(body: bytes) -> None:
    receiver = Receiver()
    answer = await receiver.post(body, content_encoding="gzip")
    assert answer.status == 400
    assert answer.headers["content-type"] == PROTOBUF
    status = Status.FromString(answer.body)
    assert status.code == 3
    assert "gzip" in status.message
    assert receiver.stored == []


@pytest.mark.parametrize("num_bytes", [LIMIT + 1, 5_000_000])
async def test_a_gzip_bomb_is_413(num_bytes: int) -> None:
    receiver = Receiver()
    bomb = gzip.compress(bytes(num_bytes))
    assert len(bomb) < LIMIT
    answer = await receiver.post(bomb, JSON, content_encoding="gzip")
    assert answer.status == 413
    assert answer.json["code"] == 8
    assert receiver.stored == []


async def test_too_large_is_413_and_said_before_the_body_is_read() -> None:
    receiver = Receiver()
    declared = await receiver.post([], JSON, content_length=str(LIMIT + 1))
    undeclared = await receiver.post([b"x" * LIMIT, b"x", b"never read"], JSON)
    for answer in (declared, undeclared):
        assert answer.status == 413
        assert answer.json == {"code": 8, "message": f"the request is larger than {LIMIT} bytes"}
        assert answer.headers["connection"] == "close"
    assert (await receiver.post(b"x" * LIMIT)).status == 200


async def test_no_room_is_429_with_retry_after_and_room_is_given_back() -> None:
    receiver = Receiver(room_bytes=100)
    answer = await receiver.post(b"x" * 101, JSON)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert answer.json["code"] == 8
    for _ in range(10):
        assert (await receiver.post(b"x" * 100)).status == 200


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [(BusyError("later", 2.5), 429, "3"), (SpoolError("disk full"), 503, "5")],
)
async def test_what_cannot_be_stored_is_retryable(
    error: Exception, status: int, retry_after: str
) -> None:
    receiver = Receiver()
    receiver.error = error
    answer = await receiver.post(b"x", JSON)
    assert (answer.status, answer.headers["retry-after"]) == (status, retry_after)
    assert answer.json["message"] == str(error)


async def test_a_client_that_goes_away_leaves_nothing() -> None:
    receiver = Receiver(room_bytes=100)
    headers = {"content-type": JSON}
    for _ in range(10):
        answer = await call(receiver.app, "POST", "/v1/logs", [b"x" * 60], headers, disconnect=True)
        assert answer is None
    assert receiver.stored == []
    assert (await receiver.post(b"x" * 100)).status == 200


async def test_health_is_told() -> None:
    receiver = Receiver()
    answer = await call(receiver.app, "GET", "/health")
    assert answer is not None
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    refused = await call(receiver.app, "POST", "/health")
    assert refused is not None
    assert refused.status == 405


@pytest.mark.parametrize("path", ["/ready", "/live"])
@pytest.mark.parametrize(("value", "status"), [(True, 200), (False, 503)])
async def test_probes_are_told_by_their_status(path: str, value: bool, status: int) -> None:
    receiver = Receiver()
    receiver.health = {"status": "degraded", path.removeprefix("/"): value}
    answer = await call(receiver.app, "GET", path)
    assert answer is not None
    assert (answer.status, answer.json) == (status, receiver.health)


async def test_nothing_is_taken_from_a_page_in_a_browser() -> None:
    receiver = Receiver()
    assert (await receiver.post(origin="http://evil.example")).status == 403
    assert receiver.stored == []
