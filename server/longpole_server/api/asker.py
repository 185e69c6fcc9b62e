"""Routes about who asks, and of what was done by whom."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longpole_server.api.responses import JsonResponse
from longpole_server.auth.audit import AuditEntry, AuditLog
from longpole_server.model.principal import Role
from longpole_server.service.asking import who_asks


@dataclass(frozen=True, slots=True)
class MeDocument:
    """Who asks. `projects` is null for all; `signed_in` is false where nobody is asked."""

    name: str
    role: Role
    projects: Sequence[str] | None
    signed_in: bool


@dataclass(frozen=True, slots=True)
class AuditPage:
    """What was done, the newest first."""

    entries: Sequence[AuditEntry]
    next: str | None


def create_asker_router(audit: AuditLog) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["server"])

    @router.get("/me", response_model=MeDocument)
    async def get_me() -> Response:
        """Who asks, and what they may."""
        principal = who_asks().principal
        projects = None if principal.projects is None else sorted(principal.projects)
        return JsonResponse(
            MeDocument(principal.name, principal.role, projects, bool(principal.subject))
        )

    @router.get("/audit", response_model=AuditPage)
    async def list_audit(
        limit: Annotated[int, Query(ge=1, le=10_000, description="entries at most")] = 100,
    ) -> Response:
        """Who changed what, and who signed in; for admins."""
        return JsonResponse(AuditPage(await asyncio.to_thread(audit.list_newest, limit), None))

    return router
