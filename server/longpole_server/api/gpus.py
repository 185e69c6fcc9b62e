"""Routes of GPUs and of the nodes that hold them."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longpole_server.api.documents import (
    GpusPage,
    NodesPage,
    ProcessesPage,
    describe_nodes,
)
from longpole_server.api.responses import JsonResponse
from longpole_server.service import Service

_SECOND_NS = 1_000_000_000
_MAX_POINTS = 120


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

    @router.get("/processes", response_model=ProcessesPage)
    def list_processes(
        host: Annotated[str | None, Query(description="of one node alone")] = None,
        seconds: Annotated[int, Query(ge=60, le=86_400)] = 3_600,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> Response:
        """Processes whose host memory grew most, without what they share: Ray's, from agents."""
        end_ns = service.changes.current.ts_ns + _SECOND_NS
        found = service.list_host_processes(
            host, end_ns - seconds * _SECOND_NS, end_ns, _MAX_POINTS, limit
        )
        return JsonResponse(ProcessesPage(found, None))

    return router
