"""Routes at `/clickhouse/`: the statement in the body or as `query=`, the answer in its format."""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Protocol

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from longpole_server.errors import QueryRefusedError, ServerError, TooLargeError
from longpole_server.read.free_queries import FreeAnswer, FreeQuery, QueryLimits
from longpole_server.sql_door.hello import is_hello, make_hello
from longpole_server.sql_door.requests import SqlRequest, read_request
from longpole_server.sql_door.responses import AUTHENTICATION_FAILED, make_answer, make_failure
from longpole_server.sql_door.running import QueryRunner
from longpole_server.sql_door.unread import UnreadAnswers

PREFIX = "/clickhouse"
_NOT_IMPLEMENTED = 48
_MAX_BODY_BYTES = 512 << 10
_MAX_UNREAD_BYTES = 512 << 20

# Tells whether a password lets in; None where the client gives none.
MayAsk = Callable[[str | None], bool]


class Queries(Protocol):
    """What answers."""

    @property
    def database(self) -> str:
        """The database whose tables may be read."""
        ...

    @property
    def limits(self) -> QueryLimits:
        """Of each query."""
        ...

    def answer(self, asked: FreeQuery) -> FreeAnswer:
        """Run a query, in the calling thread."""
        ...


def create_sql_routes(
    queries: Queries, executor: Executor, may_ask: MayAsk, grace_s: float = 5.0
) -> tuple[Route, ...]:
    """Return the routes.

    Args:
        queries: Answers.
        executor: Runs them: its threads are kept from other requests.
        may_ask: Tells whether a password lets in, None where the client gives none.
        grace_s: How much longer than its limit of time a query is waited for.
    """
    door = _Door(queries, executor, may_ask, grace_s)
    return (
        Route(f"{PREFIX}/ping", _answer_ping, methods=["GET"]),
        Route(PREFIX, door.answer, methods=["GET", "POST"]),
        Route(f"{PREFIX}/", door.answer, methods=["GET", "POST"]),
    )


class _Door:
    def __init__(
        self, queries: Queries, executor: Executor, may_ask: MayAsk, grace_s: float
    ) -> None:
        self._queries = queries
        self._runner = QueryRunner(queries.answer, executor, queries.limits, grace_s)
        self._unread = UnreadAnswers(_MAX_UNREAD_BYTES)
        self._may_ask = may_ask
        self._server: tuple[str, str] | None = None

    async def answer(self, request: Request) -> Response:
        try:
            self._check_password(request)
            body = await _read_body(request)
            asked = read_request(
                request.query_params.multi_items(),
                request.headers,
                body,
                self._queries.database,
            )
            return await self._answer(asked)
        except ServerError as error:
            return make_failure(error)

    async def _answer(self, asked: SqlRequest) -> Response:
        if not asked.query.sql.strip():
            return PlainTextResponse("Ok.\n")
        version, timezone = await self._describe_server()
        if is_hello(asked.query.sql.encode()) and asked.client_revision:
            body = make_hello("Longpole", version, timezone, asked.client_revision)
            return make_answer(body, "Native", timezone, asked.query_id, takes_gzip=False)
        self._unread.check()
        answer = await self._runner.run(asked.query)
        made = await asyncio.to_thread(
            make_answer,
            answer.body,
            answer.form,
            timezone,
            asked.query_id or secrets.token_hex(16),
            asked.takes_gzip,
        )
        return self._unread.hold(made)

    async def _describe_server(self) -> tuple[str, str]:
        if self._server is None:
            answer = await self._runner.run(FreeQuery("SELECT version(), timezone()"))
            version, _, timezone = answer.body.decode().strip().partition("\t")
            self._server = version, timezone
        return self._server

    def _check_password(self, request: Request) -> None:
        passwords = _list_passwords(request.headers, request.query_params)
        if not any(map(self._may_ask, passwords or [None])):
            raise QueryRefusedError(
                "Authentication failed: the password is no token that may ask here.",
                AUTHENTICATION_FAILED,
                hint="Give any user, and as password a token that may read every project.",
            )


def _list_passwords(headers: Mapping[str, str], parameters: Mapping[str, str]) -> list[str | None]:
    """Return what a client gave as password, in the places where ClickHouse looks for one."""
    found = [headers.get("x-clickhouse-key"), parameters.get("password")]
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(credentials.strip())
    elif scheme.lower() == "basic":
        try:
            decoded = base64.b64decode(credentials.strip(), validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        found.append(decoded.partition(b":")[2].decode("utf-8", "replace"))
    return [password for password in found if password]


async def _read_body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        raise QueryRefusedError("External tables are not taken here.", _NOT_IMPLEMENTED)
    if request.headers.get("content-encoding", "identity") != "identity":
        raise QueryRefusedError("A compressed query is not taken here.", _NOT_IMPLEMENTED)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise TooLargeError(f"The query is larger than {_MAX_BODY_BYTES:,} bytes.")
    return bytes(body)


async def _answer_ping(_: Request) -> Response:
    return PlainTextResponse("Ok.\n")
