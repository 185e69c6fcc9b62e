from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from longpole_server.api.bounded_bodies import BoundedBodiesMiddleware


async def answer_length(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def swallow(request: Request) -> Response:
    try:
        await request.body()
    except ClientDisconnect:
        return PlainTextResponse("as if nothing were the matter")
    return PlainTextResponse("read")


async def answer_at_once(_: Request) -> Response:
    return PlainTextResponse("unread")


@pytest.fixture
def client() -> TestClient:
    app = Starlette(
        routes=[
            Route("/length", answer_length, methods=["GET", "POST"]),
            Route("/swallow", swallow, methods=["POST"]),
            Route("/unread", answer_at_once, methods=["POST"]),
            Route("/api/v1/import", answer_length, methods=["POST"]),
        ]
    )
    return TestClient(BoundedBodiesMiddleware(app, max_bytes=100))


def drip(num_bytes: int) -> Iterator[bytes]:
    for _ in range(num_bytes):
        yield b"x"


def test_what_fits_passes(client: TestClient):
    assert client.get("/length").text == "0"
    assert client.post("/length", content=b"x" * 100).text == "100"
    assert client.post("/length", content=drip(100)).text == "100"


@pytest.mark.parametrize("path", ["/length", "/swallow"])
def test_what_does_not_is_refused_whether_its_length_is_told_or_not(client: TestClient, path: str):
    for content in (b"x" * 101, drip(101)):
        refused = client.post(path, content=content)
        assert refused.status_code == 413
        assert refused.json()["error"]["code"] == "too_large"


def test_what_bounds_itself_is_left_alone(client: TestClient):
    assert client.post("/api/v1/import", content=b"x" * 1_000).text == "1000"


def test_who_does_not_read_may_answer(client: TestClient):
    assert client.post("/unread", content=drip(1_000)).text == "unread"
