"""Routes of the contract that this version does not answer yet: said clearly, never faked."""

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api.responses import make_error

_ABSENT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("/runs/{run:path}/alerts/replay", ("GET",)),
    ("/alerts", ("GET",)),
    ("/alerts/events", ("GET",)),
    ("/alerts/{alert}/ack", ("POST",)),
    ("/rules", ("GET", "POST", "PUT", "DELETE")),
    ("/silences", ("GET", "POST", "DELETE")),
    ("/channels", ("GET",)),
)


def create_absent_router() -> APIRouter:
    """Return routes that answer 501 with code `not_available_yet`."""
    router = APIRouter()
    for path, methods in _ABSENT:
        router.add_api_route(path, _answer_absent, methods=list(methods), include_in_schema=False)
    return router


async def _answer_absent() -> Response:
    return make_error(
        501,
        "not_available_yet",
        "this version of Longpole does not answer this route",
        "see /api/openapi.json for the routes that it answers",
    )
