import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import httpx
import pytest
from google.rpc.status_pb2 import Status
from starlette.applications import Starlette

from longpole_server.ingest.admission import Admission
from longpole_server.ingest.http import OtlpFirst, create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import SIGNALS, Signal
from longpole_server.model.principal import EVERYBODY
from support import otlp_builders as otlp
from support.otlp_pipeline import RecordingWriter, running_pipeline

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
PAYLOADS = Path(__file__).parents[2] / "contract" / "otlp" / "payloads"
BODY = otlp.traces((otlp.process(), [otlp.loop(1, 0, 10)]))
LIMIT = 4096
TOKEN = "Bearer secret"
GZIP = {"content-encoding": "gzip"}


class Client:
    """Speaks to the receiver of a pipeline that is not written out until `written`."""

    def __init__(self, pipeline: Pipeline, writer: RecordingWriter, *, token: bool) -> None:
        self.pipeline = pipeline
        self._writer = writer
        limits = OtlpLimits(max_request_bytes=LIMIT, max_in_flight_bytes=2 * LIMIT)
        admission = Admission(lambda header: EVERYBODY if header == TOKEN else None)
        routes = create_otlp_routes(pipeline, limits, admission if token else None)
        self._app = Starlette(routes=routes)

    def send(
        self,
        content: bytes | AsyncIterator[bytes] = BODY,
        signal: Signal = "traces",
        *,
        media_type: str | None = PROTOBUF,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        named = dict(headers or {})
        if media_type is not None:
            named["content-type"] = media_type

        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, f"/v1/{signal}", content=content, headers=named)

        return asyncio.run(request())

    @property
    def num_written(self) -> int:
        assert self.pipeline.drain(60)
        return len(self._writer.records.raw_spans)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        yield Client(pipeline, writer, token=False)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Client]:
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        yield Client(pipeline, writer, token=True)


def read_status(response: httpx.Response) -> Status:
    assert response.headers["content-type"] == PROTOBUF
    return Status.FromString(response.content)


@pytest.mark.parametrize(
    "media_type",
    [PROTOBUF, "APPLICATION/X-Protobuf", "application/x-protobuf; charset=UTF-8"],
)
def test_protobuf(client: Client, media_type: str) -> None:
    response = client.send(media_type=media_type)

    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-type"] == PROTOBUF
    assert client.num_written == 1


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("media_type", [JSON, "Application/JSON", "application/json;charset=utf-8"])
def test_json(client: Client, signal: Signal, media_type: str) -> None:
    body = (PAYLOADS / f"{signal}.json").read_bytes()

    response = client.send(body, signal, media_type=media_type)

    assert (response.status_code, response.content) == (200, b"{}")
    assert response.headers["content-type"] == JSON
    assert client.pipeline.stats.num_accepted == 1


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_gzip(client: Client, coding: str) -> None:
    response = client.send(gzip.compress(BODY), headers={"content-encoding": coding})

    assert response.status_code == 200
    assert client.num_written == 1


def test_gzip_json(client: Client) -> None:
    body = gzip.compress((PAYLOADS / "traces.json").read_bytes())

    response = client.send(body, media_type=JSON, headers=GZIP)

    assert response.status_code == 200
    assert client.num_written == 1


@pytest.mark.parametrize(("content", "media_type"), [(b"", PROTOBUF), (b"{}", JSON)])
def test_an_empty_request_is_a_success(client: Client, content: bytes, media_type: str) -> None:
    assert client.send(content, media_type=media_type).status_code == 200


def test_a_batch_id_is_stored_once(client: Client) -> None:
    for _ in range(2):
        response = client.send(headers={"longpole-batch-id": "agent/boot/1"})
        assert (response.status_code, response.content) == (200, b"")

    assert client.num_written == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_are_405(client: Client, method: str) -> None:
    response = client.send(b"", method=method)

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("media_type", "headers"),
    [
        (None, {}),
        ("text/plain", {}),
        ("application/octet-stream", {}),
        ("application/json; charset=utf-16", {}),
        (PROTOBUF, {"content-encoding": "zstd"}),
        (PROTOBUF, {"content-encoding": "gzip, gzip"}),
    ],
)
def test_what_we_do_not_read_is_415(
    client: Client, media_type: str | None, headers: dict[str, str]
) -> None:
    response = client.send(media_type=media_type, headers=headers)

    assert response.status_code == 415
    assert response.headers["content-type"].startswith("text/plain")
    assert client.num_written == 0


@pytest.mark.parametrize(
    "content", [b"not protobuf", BODY[:-1], b"\x0a\xff", json.dumps({}).encode(), b"\x1f\x8b"]
)
def test_malformed_protobuf_is_400(client: Client, content: bytes) -> None:
    response = client.send(content)

    assert response.status_code == 400
    assert read_status(response).code == 3
    assert "OTLP traces" in read_status(response).message
    assert client.pipeline.stats.num_accepted == 0


@pytest.mark.parametrize("content", [b"", b"{", BODY, b'{"resourceSpans": 5}', b"\xff"])
def test_malformed_json_is_400(client: Client, content: bytes) -> None:
    response = client.send(content, media_type=JSON)

    assert response.status_code == 400
    assert response.headers["content-type"] == JSON
    assert response.json()["code"] == 3
    assert response.json()["message"]
    assert client.pipeline.stats.num_accepted == 0


@pytest.mark.parametrize("content", [b"plain", gzip.compress(BODY)[:-5], b""])
def test_malformed_gzip_is_400(client: Client, content: bytes) -> None:
    response = client.send(content, headers=GZIP)

    assert response.status_code == 400
    assert client.pipeline.stats.num_accepted == 0


def test_another_signals_message_is_not_stored_as_ours(client: Client) -> None:
    """All three have the same outer shape; the inner types differ."""
    body = otlp.metrics((otlp.process(), [otlp.gauge("loss", [(1, 0.5, {})])]))

    client.send(body, "traces")

    assert client.num_written == 0


def chunks(body: bytes) -> AsyncIterator[bytes]:
    async def give() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    return give()


LARGE = otlp.traces((otlp.process(note="x" * LIMIT), [otlp.loop(1, 0, 10)]))


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (LARGE, {}),
        (chunks(LARGE), {}),
        (gzip.compress(LARGE), GZIP),
        (gzip.compress(b"\0" * (50 << 20)), GZIP),
        (gzip.compress(BODY) * 500, GZIP),
    ],
    ids=["declared", "chunked", "gzip", "bomb", "members"],
)
def test_over_the_limit_is_413(
    client: Client, content: bytes | AsyncIterator[bytes], headers: dict[str, str]
) -> None:
    response = client.send(content, headers=headers)

    assert response.status_code == 413
    assert f"{LIMIT} bytes" in read_status(response).message
    assert client.pipeline.stats.num_accepted == 0
    assert client.send().status_code == 200


def test_a_full_server_is_429(tmp_path: Path) -> None:
    writer = RecordingWriter()
    writer.fail()
    with running_pipeline(tmp_path, writer, Normalizer(), max_bytes=16 << 10) as pipeline:
        client = Client(pipeline, writer, token=False)
        responses = [client.send() for _ in range(200)]

        refused = next(response for response in responses if response.status_code != 200)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert read_status(refused).code == 14
        num_accepted = sum(response.status_code == 200 for response in responses)
        writer.failure = None
        assert client.num_written == num_accepted


def test_a_batch_id_that_makes_no_sense_is_400(client: Client) -> None:
    assert client.send(headers={"longpole-batch-id": "x" * 1000}).status_code == 400


@pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
def test_without_the_token_it_is_401(guarded: Client, media_type: str) -> None:
    for headers in (None, {"authorization": "Bearer wrong"}):
        response = guarded.send(media_type=media_type, headers=headers)

        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.headers["content-type"] == media_type
    assert guarded.pipeline.stats.num_accepted == 0
    assert guarded.send(headers={"authorization": TOKEN}).status_code == 200


def test_a_client_that_goes_away_leaves_nothing_behind(client: Client) -> None:
    async def main() -> Sequence[int]:
        sent: list[int] = []

        async def receive() -> dict[str, object]:
            if sent:
                return {"type": "http.disconnect"}
            sent.append(1)
            return {"type": "http.request", "body": BODY[:5], "more_body": True}

        async def send(message: object) -> None:
            raise AssertionError("nobody is there")

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/traces",
            "query_string": b"",
            "headers": [(b"content-type", PROTOBUF.encode())],
        }
        limits = OtlpLimits()
        route = create_otlp_routes(client.pipeline, limits)[0]
        await route.app(scope, receive, send)
        return sent

    assert asyncio.run(main()) == [1]
    assert client.pipeline.stats.num_accepted == 0


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/traces", 401), ("/v1/metrics", 401), ("/v1/traces/", 404), ("/api/v1/runs", 404)],
)
def test_otlp_is_answered_first_and_by_the_same_rules(
    client: Client, path: str, status: int
) -> None:
    async def main() -> httpx.Response:
        routes = create_otlp_routes(client.pipeline, OtlpLimits(), Admission(lambda _: None))
        transport = httpx.ASGITransport(OtlpFirst(routes, Starlette()))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as asking:
            return await asking.post(path, content=BODY, headers={"content-type": PROTOBUF})

    assert asyncio.run(main()).status_code == status
    assert client.pipeline.stats.num_accepted == 0


def test_a_large_body_is_judged_like_a_small_one(tmp_path: Path) -> None:
    spans = [otlp.span("x", 1, 2, {"text": "y" * 1000}) for _ in range(40)]
    body = otlp.traces((otlp.process(), spans))
    writer = RecordingWriter()
    with running_pipeline(tmp_path, writer, Normalizer()) as pipeline:
        app = Starlette(routes=create_otlp_routes(pipeline, OtlpLimits()))

        async def main() -> list[int]:
            transport = httpx.ASGITransport(app)
            headers = {"content-type": PROTOBUF}
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as asking:
                return [
                    (await asking.post("/v1/traces", content=each, headers=headers)).status_code
                    for each in (body, body[:-1])
                ]

        assert asyncio.run(main()) == [200, 400]
        assert pipeline.drain(60)
    (block,) = [block for block in writer.records.blocks if block.kind == "raw_spans"]
    assert block.num_rows == 40


def test_nothing_is_taken_from_a_page_in_a_browser(client: Client) -> None:
    assert client.send(headers={"origin": "http://server"}).status_code == 403
    assert client.num_written == 0
