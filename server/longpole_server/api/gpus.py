"""Routes of GPUs."""

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api.documents import GpusPage
from longpole_server.api.responses import JsonResponse
from longpole_server.service import Service


def create_gpus_router(service: Service) -> APIRouter:
    """Return the route of all GPUs."""
    router = APIRouter(tags=["gpus"])

    @router.get("/gpus", response_model=GpusPage)
    def list_gpus() -> Response:
        """Every GPU seen in the last day, with its newest sample."""
        return JsonResponse(GpusPage(service.list_gpus(), None))

    return router
