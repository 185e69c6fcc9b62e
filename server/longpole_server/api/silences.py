"""Routes of silences."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api import alert_documents as documents
from longpole_server.api.responses import JsonResponse
from longpole_server.model.alert import Silence
from longpole_server.service import Alerts


def create_silences_router(alerts: Alerts) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["alerts"])

    @router.get("/silences", response_model=documents.SilencesPage)
    def list_silences() -> Response:
        """Silences that are in force, newest first."""
        return JsonResponse(documents.SilencesPage(alerts.list_silences(), None))

    @router.post("/silences", response_model=Silence, status_code=201)
    def add_silence(body: dict[str, Any]) -> Response:
        """Keep alerts of a rule, a run or an entity from people until it ends."""
        return JsonResponse(alerts.add_silence(body), 201)

    @router.delete("/silences/{silence_id}", response_model=Silence)
    def lift_silence(silence_id: str) -> Response:
        """End a silence now."""
        return JsonResponse(alerts.lift_silence(silence_id))

    return router
