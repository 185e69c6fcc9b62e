"""What a server that shows answers while there is no store for it yet."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from longpole import __version__
from longpole_server.api import documents
from longpole_server.api.responses import JsonResponse, make_error

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
# Seconds after which a caller may try again.
_RETRY_AFTER_S = "5"


def create_waiting_app(tell: Callable[[], str]) -> Starlette:
    """Return what listens meanwhile: it lives, is not ready, and says what it waits for.

    Args:
        tell: Says what is waited for; anybody may read it.
    """

    async def get_health(_: Request) -> Response:
        return JsonResponse(documents.HealthDocument("ok", __version__, "web"))

    async def get_ready(_: Request) -> Response:
        waiting = documents.ReadyDocument(ready=False, parts={"store": False}, waits_for=tell())
        return JsonResponse(waiting, 503)

    async def refuse(_: Request) -> Response:
        return make_error(
            503,
            "store",
            f"this server waits for its store: {tell()}",
            "it answers by itself as soon as that is there",
            {"Retry-After": _RETRY_AFTER_S},
        )

    return Starlette(
        routes=[
            Route("/api/v1/health", get_health),
            Route("/api/v1/ready", get_ready),
            Route("/{path:path}", refuse, methods=_METHODS),
        ]
    )
