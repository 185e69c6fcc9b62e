"""Routes of GPUs and of the nodes that hold them."""

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api.documents import GpusPage, NodesPage, describe_nodes
from longpole_server.api.responses import JsonResponse
from longpole_server.service import Service


def create_gpus_router(service: Service) -> APIRouter:
    """Return the routes of all GPUs and nodes."""
    router = APIRouter(tags=["gpus"])

    @router.get("/gpus", response_model=GpusPage)
    def list_gpus() -> Response:
        """Every GPU seen in the last day, with its newest sample."""
        return JsonResponse(GpusPage(service.list_gpus(), None))

    @router.get("/nodes", response_model=NodesPage)
    def list_nodes() -> Response:
        """Every node heard from in the last day, with its newest sample."""
        return JsonResponse(describe_nodes(service.get_cluster()))

    return router
