"""The FastAPI application: every route of the HTTP API in the order in which they match."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from longpole import __version__
from longpole_server.api.access import AccessMiddleware
from longpole_server.api.alerts import create_alerts_router
from longpole_server.api.asker import create_asker_router
from longpole_server.api.changes import create_changes_router
from longpole_server.api.channels import create_channels_router
from longpole_server.api.discovery import create_discovery_router
from longpole_server.api.gpus import create_gpus_router
from longpole_server.api.imports import create_import_router
from longpole_server.api.login import Door, create_login_routes
from longpole_server.api.openapi import describe_errors
from longpole_server.api.own_state import (
    CheckReady,
    CollectMetrics,
    create_own_metrics_router,
    create_state_router,
)
from longpole_server.api.responses import add_error_handlers
from longpole_server.api.rules import create_rules_router
from longpole_server.api.runs import create_runs_router
from longpole_server.api.silences import create_silences_router
from longpole_server.api.storage import create_storage_router
from longpole_server.api.transfers import create_transfer_router
from longpole_server.service import Service
from longpole_server.service.importing import LogImporter
from longpole_server.service.news import NewsDesk
from longpole_server.service.storage import Storage
from longpole_server.service.transferring import RunTransfer

PREFIX = "/api/v1"
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(frozen=True, slots=True)
class ApiParts:
    """What the API is made of.

    Attributes:
        otlp_routes: Receivers that stand at the root.
        door: Who may call, and how people sign in; None lets everyone.
        max_import_bytes: Largest log taken by import.
        importer: Takes logs; None leaves its route out.
        news: Tells other servers what changed; None leaves its route out.
        storage: What the store holds; None leaves its route out.
        transfer: Takes whole runs out and in; None leaves its routes out.
        sql_routes: The door for people's own SQL; they check passwords themselves.
        role: What the server is for.
    """

    service: Service
    importer: LogImporter | None
    otlp_routes: Sequence[BaseRoute]
    check_ready: CheckReady
    collect_metrics: CollectMetrics
    door: Door | None
    max_import_bytes: int
    sql_routes: Sequence[Route] = ()
    storage: Storage | None = None
    transfer: RunTransfer | None = None
    news: NewsDesk | None = None
    role: str = "all"


def create_api(parts: ApiParts) -> FastAPI:
    """Build the application. Routes added later, such as pages, match after all of these."""
    # The interactive pages of FastAPI would load their scripts from elsewhere.
    api = FastAPI(
        title="Longpole",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    add_error_handlers(api)
    describe_errors(api)
    api.router.routes.extend(parts.otlp_routes)
    api.router.routes.extend(parts.sql_routes)
    for router in (
        create_state_router(parts.check_ready, parts.role),
        create_alerts_router(parts.service.alerts),
        create_rules_router(parts.service.alerts),
        create_silences_router(parts.service.alerts),
        create_channels_router(parts.service.alerts),
        create_gpus_router(parts.service),
        create_discovery_router(parts.service),
        create_runs_router(parts.service),
    ):
        api.include_router(router, prefix=PREFIX)
    if parts.importer is not None:
        router = create_import_router(parts.importer, parts.max_import_bytes)
        api.include_router(router, prefix=PREFIX)
    if parts.news is not None:
        api.include_router(create_changes_router(parts.news), prefix=PREFIX)
    if parts.transfer is not None:
        router = create_transfer_router(parts.transfer, parts.service, parts.max_import_bytes)
        api.include_router(router, prefix=PREFIX)
    if parts.storage is not None:
        api.include_router(create_storage_router(parts.storage), prefix=PREFIX)
    if parts.door is not None:
        api.router.routes.extend(create_login_routes(parts.door))
        api.include_router(create_asker_router(parts.door.audit), prefix=PREFIX)
    api.include_router(create_own_metrics_router(parts.collect_metrics))
    api.router.routes.extend(_create_unknown_routes(tuple(api.routes)))
    if parts.door is not None:
        api.add_middleware(
            AccessMiddleware,
            access=parts.door.access,
            own_paths=frozenset(route.path for route in parts.sql_routes),
        )
    return api


class _UnknownPath:
    """Answers what nothing else under a prefix does, whatever the method.

    Args:
        known: The routes before it.
    """

    def __init__(self, known: Sequence[BaseRoute]) -> None:
        self._known = known

    async def __call__(self, scope: Scope, _: Receive, __: Send) -> None:
        """Refuse: with 405 where another method would do, else with 404."""
        allowed = [method for method in _METHODS if self._takes(scope, method)]
        if allowed:
            message = f"{scope['method']} is no method of this path"
            raise HTTPException(405, message, {"Allow": ", ".join(allowed)})
        raise HTTPException(404)

    def _takes(self, scope: Scope, method: str) -> bool:
        asked = {**scope, "method": method}
        return any(route.matches(asked)[0] is Match.FULL for route in self._known)


def _create_unknown_routes(known: Sequence[BaseRoute]) -> list[Route]:
    refuse = _UnknownPath(known)
    return [
        Route(path, refuse)
        for prefix in ("/api", "/v1", "/clickhouse")
        for path in (prefix, f"{prefix}/{{rest:path}}")
    ]
