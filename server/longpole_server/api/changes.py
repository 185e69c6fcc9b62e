"""The route by which another server learns what changed at this one."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from longpole_server.api.responses import JsonResponse
from longpole_server.service.news import News, NewsDesk, Seen

_MAX_WAIT_S = 10.0
_Number = Annotated[int, Query(ge=0, le=(1 << 63) - 1)]


def create_changes_router(news: NewsDesk) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["server"])

    @router.get("/changes", response_model=News)
    async def list_changes(
        epoch: Annotated[
            str, Query(max_length=100, description="`epoch` of the answer before")
        ] = "",
        version: _Number = 0,
        writes: _Number = 0,
        wait_s: Annotated[float, Query(ge=0, le=_MAX_WAIT_S, allow_inf_nan=False)] = 0.0,
    ) -> Response:
        """Which runs changed since the answer before, at once or when something does."""
        return JsonResponse(await news.wait(Seen(epoch, version, writes), wait_s))

    return router
