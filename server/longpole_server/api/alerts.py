"""Routes of alerts and their events."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longpole_server.api import alert_documents as documents
from longpole_server.api.paging import cut_page, make_cursor, read_cursor
from longpole_server.api.responses import JsonResponse
from longpole_server.errors import BadRequestError
from longpole_server.model.alert import Alert, AlertPhase
from longpole_server.service import Alerts

_MAX_LIMIT = 10_000
_Limit = Annotated[int, Query(ge=1, le=_MAX_LIMIT)]
_Cursor = Annotated[str | None, Query(description="`next` of the page before")]
_Run = Annotated[str | None, Query(description="run id")]


def create_alerts_router(alerts: Alerts) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["alerts"])

    @router.get("/alerts", response_model=documents.AlertsPage)
    def list_alerts(
        state: AlertPhase | None = None,
        run: _Run = None,
        limit: _Limit = 1_000,
        cursor: _Cursor = None,
    ) -> Response:
        """Alerts, newest first: open ones and those that were over not long ago."""
        page, following = cut_page(alerts.list_alerts(state, run), cursor, limit)
        return JsonResponse(documents.AlertsPage(page, following))

    @router.get("/alerts/events", response_model=documents.EventsPage)
    def list_events(run: _Run = None, limit: _Limit = 100, cursor: _Cursor = None) -> Response:
        """Transitions of alerts, newest first."""
        start = read_cursor(cursor)
        events = alerts.list_events(run, limit + 1, start)
        following = make_cursor(start + limit) if len(events) > limit else None
        return JsonResponse(
            documents.EventsPage([documents.describe_event(e) for e in events[:limit]], following)
        )

    @router.post("/alerts/{alert_id}/ack", response_model=Alert)
    def acknowledge(alert_id: str, body: documents.AcknowledgementRequest) -> Response:
        """Say that somebody looks after an alert: it is not repeated any more."""
        if not body.author.strip():
            raise BadRequestError("an acknowledgement names its author")
        return JsonResponse(alerts.acknowledge(alert_id, body.author.strip(), body.comment))

    @router.get("/runs/{run:path}/alerts/replay", response_model=documents.AlertsPage)
    def replay(run: str) -> Response:
        """What all rules would have done to the stored run; changes and sends nothing."""
        return JsonResponse(documents.AlertsPage(alerts.replay(run), None))

    return router
