"""Routes of the channels through which people are told."""

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api import alert_documents as documents
from longpole_server.api.responses import JsonResponse
from longpole_server.service import Alerts


def create_channels_router(alerts: Alerts) -> APIRouter:
    """Return the routes. No answer holds a secret."""
    router = APIRouter(tags=["alerts"])

    @router.get("/channels", response_model=documents.ChannelsPage)
    def list_channels() -> Response:
        """Channels and how their deliveries went."""
        return JsonResponse(documents.ChannelsPage(alerts.list_channels(), None))

    @router.post("/channels/test", response_model=documents.ChannelTestsPage)
    def test_channels() -> Response:
        """Send a sample to every channel."""
        return JsonResponse(documents.ChannelTestsPage(alerts.test_channels(), None))

    return router
