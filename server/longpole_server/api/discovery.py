"""Routes of discovery: what RL-Insight's client asks and tells, and what agents scrape."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from longpole_server.api import documents
from longpole_server.api.registration import BODY_SCHEMA, read_registration
from longpole_server.api.responses import JsonResponse
from longpole_server.errors import TooLargeError
from longpole_server.model.discovery import ScrapeTarget, ScrapingAgent
from longpole_server.service import Service
from longpole_server.service.scrape_addresses import is_loopback, normalise_address

_MAX_BODY_BYTES = 1 << 20
_MAX_ADDRESSES = 64
_DEFAULT_PORTS = {"http": 80, "https": 443}


def create_discovery_router(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["discovery"])

    @router.get("/services", response_model=documents.ServicesDocument)
    async def get_services(request: Request) -> Response:
        """Where this server takes OTLP: at `/v1/traces` of the port that was asked."""
        return JsonResponse(documents.ServicesDocument("ok", _asked_port(request), None, None))

    @router.post(
        "/prometheus/targets",
        response_model=documents.RegistrationDocument,
        openapi_extra=BODY_SCHEMA,
    )
    async def register_targets(request: Request) -> Response:
        """Register Prometheus pages, which agents then scrape for two weeks."""
        registration = read_registration(await _receive(request), _peer(request))
        num_targets = await asyncio.to_thread(service.register_scrape_targets, registration)
        return JsonResponse(
            documents.RegistrationDocument("ok", registration.job_name, num_targets, False)
        )

    @router.get("/scrape-targets", response_model=documents.ScrapeTargetsPage)
    def list_scrape_targets(
        request: Request,
        host: Annotated[
            str, Query(min_length=1, max_length=255, description="name of the agent's node")
        ],
        address: Annotated[
            list[str], Query(max_length=_MAX_ADDRESSES, description="addresses of the node")
        ] = [],  # noqa: B006 - FastAPI copies it
    ) -> Response:
        """What an agent on a host is to scrape; the agent beside the server takes the rest."""
        peer = _peer(request)
        known = (normalise_address(text) for text in (*address, peer))
        agent = ScrapingAgent(host, frozenset(known) - {""}, is_loopback(peer))
        targets = service.list_scrape_targets(agent)
        return JsonResponse(
            documents.ScrapeTargetsPage([_describe(each) for each in targets], None)
        )

    return router


def _describe(target: ScrapeTarget) -> documents.ScrapeTargetDocument:
    return documents.ScrapeTargetDocument(
        job_name=target.job_name,
        target=target.target,
        labels=target.labels,
        host=target.host or None,
        seen_ns=target.seen_ns,
    )


def _asked_port(request: Request) -> int | None:
    """Return the port under which the client reached this server, through whatever forwards it."""
    return request.url.port or _DEFAULT_PORTS.get(request.url.scheme)


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else ""


async def _receive(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise TooLargeError(f"a registration is at most {_MAX_BODY_BYTES:,} bytes")
    return bytes(body)
