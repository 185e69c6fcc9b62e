"""OTLP over HTTP: `POST /v1/traces|metrics|logs`, protobuf and JSON, gzip.

Statuses follow the OTLP specification and the Collector: 200 with an empty response message, 400
for what cannot be decoded, 401, 403 for what belongs to another project, 405, 413 over the size
limit, 415 for another media type, 429 with `Retry-After` when busy, 503 when the disk fails. A body
of an error is a `google.rpc.Status` in the request's encoding; before the encoding is known it is
plain text.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from longpole.conventions.attributes import HEADER_BATCH_ID
from longpole_server.errors import ServerError
from longpole_server.ingest.admission import Admission, is_quick
from longpole_server.ingest.compression import check_size, decompress
from longpole_server.ingest.entry import check_batch_id
from longpole_server.ingest.limits import InFlightMeter, OtlpLimits
from longpole_server.ingest.nameless import FindJob, may_be_nameless, name_senders
from longpole_server.ingest.otlp_json import build_request
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.ingest.signals import SIGNALS, Signal, parse_request
from longpole_server.ingest.status import UNAUTHENTICATED, Refusal, refuse
from longpole_server.model.principal import EVERYBODY, Principal

_PROTOBUF = "application/x-protobuf"
_JSON = "application/json"
_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii"})
# A trainer's page ends with the trainer, and its spans are the last it sends: agents, which read
# pages every second, get a last look at it before it hears that they arrived.
_LAST_LOOK_S = 1.5
# Decoding holds the interpreter lock, more threads would only hold more memory.
_NUM_DECODERS = 2


class _UnsupportedError(Exception):
    """Another media type, charset or content coding than we take (415)."""


@dataclass(frozen=True, slots=True)
class _Format:
    """How the body of a request is written; `media_type` is also the response's."""

    media_type: str
    is_gzip: bool

    @property
    def is_plain(self) -> bool:
        """Whether the body is protobuf as it is."""
        return self.media_type == _PROTOBUF and not self.is_gzip


@dataclass(frozen=True, slots=True)
class _Receiver:
    """What the endpoints of one server share."""

    pipeline: Pipeline
    limits: OtlpLimits
    admission: Admission | None
    meter: InFlightMeter
    decoders: ThreadPoolExecutor
    find_job: FindJob | None


def create_otlp_routes(
    pipeline: Pipeline,
    limits: OtlpLimits,
    admission: Admission | None = None,
    find_job: FindJob | None = None,
) -> Sequence[Route]:
    """Return the three routes, to stand at the root of an application.

    Args:
        pipeline: Started, and closed after the last request.
        limits: Bounds shared by the three.
        admission: Decides about senders; None lets everyone send.
        find_job: Finds the job of a sender that names none; None leaves it without.
    """
    receiver = _Receiver(
        pipeline,
        limits,
        admission,
        InFlightMeter(limits.max_in_flight_bytes),
        ThreadPoolExecutor(_NUM_DECODERS, thread_name_prefix="longpole-otlp-decode"),
        find_job,
    )
    return [Route(f"/v1/{signal}", _Endpoint(signal, receiver)) for signal in SIGNALS]


class OtlpFirst:
    """An ASGI application that answers the OTLP routes itself and leaves the rest to another one.

    What stands around that one costs as much as a small request. The routes decide about senders
    themselves, whichever way a request comes.
    """

    def __init__(self, routes: Sequence[Route], rest: ASGIApp) -> None:
        self._endpoints: dict[str, ASGIApp] = {route.path: route.app for route in routes}
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        endpoint = self._endpoints.get(scope["path"]) if scope["type"] == "http" else None
        await (endpoint or self._rest)(scope, receive, send)


class _Endpoint:
    """The ASGI application of one signal."""

    def __init__(self, signal: Signal, receiver: _Receiver) -> None:
        self._signal: Signal = signal
        self._receiver = receiver

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return PlainTextResponse(
                "405 method not allowed, supported: [POST]", 405, {"Allow": "POST"}
            )
        if request.headers.get("origin") is not None:
            # A page in somebody's browser, on a name that it made point here. Senders are programs.
            return PlainTextResponse("403 telemetry is not taken from web pages", 403)
        try:
            body_format = _read_format(request)
        except _UnsupportedError as error:
            return PlainTextResponse(f"415 {error}", 415, {"Accept-Encoding": "gzip"})
        try:
            admission = self._receiver.admission
            sender: Principal | None = EVERYBODY
            if admission is not None:
                sender = admission.find_sender(request.headers.get("authorization"))
            if sender is None:
                return _respond_refusal(UNAUTHENTICATED, body_format)
            if await self._accept(request, body_format, sender):
                await asyncio.sleep(_LAST_LOOK_S)
        except ServerError as error:
            return _respond_refusal(refuse(error), body_format)
        # An empty message is the answer to full success: `partial_success` stays unset.
        content = b"{}" if body_format.media_type == _JSON else b""
        return Response(content, media_type=body_format.media_type)

    async def _accept(self, request: Request, body_format: _Format, sender: Principal) -> bool:
        """Take a request; return whether its sender was one that only this server could name."""
        receiver = self._receiver
        batch_id = check_batch_id(request.headers.get(HEADER_BATCH_ID))
        with receiver.meter.reserve() as reservation:
            declared = request.headers.get("content-length", "")
            if declared.isdecimal():
                check_size(int(declared), receiver.limits.max_request_bytes)
            chunks: list[bytes] = []
            async for chunk in request.stream():
                reservation.add(len(chunk))
                check_size(reservation.num_bytes, receiver.limits.max_request_bytes)
                chunks.append(chunk)
            body = b"".join(chunks)
            chunks.clear()
            peer = None if request.client is None else request.client.host
            # Agents name senders themselves, and give each batch an id. Who may send to single
            # projects is given no job: others may work from its address.
            finds_job = self._signal == "traces" and batch_id is None and sender.projects is None
            read = partial(self._read, body_format, body, sender, peer if finds_job else None)
            if (
                body_format.is_plain
                and is_quick(body, sender)
                and not (finds_job and may_be_nameless(body))
            ):
                body, is_nameless = read()
            else:
                loop = asyncio.get_running_loop()
                body, is_nameless = await loop.run_in_executor(receiver.decoders, read)
            await receiver.pipeline.accept_async(self._signal, body, batch_id, peer)
        return is_nameless

    def _read(
        self, body_format: _Format, body: bytes, sender: Principal, peer: str | None
    ) -> tuple[bytes, bool]:
        """Return the request as `_decode`, and whether its sender was named here, by `peer`."""
        body = self._decode(body_format, body, sender)
        find_job = self._receiver.find_job
        if peer is None or find_job is None:
            return body, False
        named = name_senders(body, peer, find_job)
        return named, named is not body

    def _decode(self, body_format: _Format, body: bytes, sender: Principal) -> bytes:
        """Return the request in protobuf, proven to be one that the sender may send."""
        if body_format.is_gzip:
            body = decompress(body, self._receiver.limits.max_request_bytes)
        if body_format.media_type == _JSON:
            message = build_request(self._signal, body)
            body = message.SerializeToString()
        else:
            message = parse_request(self._signal, body)
        if self._receiver.admission is not None:
            self._receiver.admission.check(sender, self._signal, message)
        return body


def _read_format(request: Request) -> _Format:
    media_type, *parameters = request.headers.get("content-type", "").split(";")
    media_type = media_type.strip().lower()
    if media_type not in {_PROTOBUF, _JSON}:
        raise _UnsupportedError(f"unsupported media type, supported: [{_JSON}, {_PROTOBUF}]")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in _CHARSETS:
            raise _UnsupportedError("unsupported charset, supported: [utf-8]")
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise _UnsupportedError("unsupported content encoding, supported: [gzip]")
    return _Format(media_type, is_gzip=coding.endswith("gzip"))


def _respond_refusal(refusal: Refusal, body_format: _Format) -> Response:
    headers: dict[str, str] = {}
    if refusal.retry_after_header is not None:
        headers["Retry-After"] = refusal.retry_after_header
    if refusal.http_status == UNAUTHENTICATED.http_status:
        headers["WWW-Authenticate"] = "Bearer"
    status = refusal.to_status()
    if body_format.media_type == _JSON:
        content = orjson.dumps({"code": status.code, "message": status.message})
    else:
        content = status.SerializeToString()
    return Response(content, refusal.http_status, headers, body_format.media_type)
