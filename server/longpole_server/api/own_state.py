"""The server's own state: is it alive, can it work, and its counters for Prometheus."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from fastapi import APIRouter
from starlette.responses import PlainTextResponse, Response

from longpole import __version__
from longpole_server.api import documents
from longpole_server.api.responses import JsonResponse

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """One figure about the server itself; `name` ends in its unit or in `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    value: float


CollectMetrics = Callable[[], Iterable[OwnMetric]]
# The parts that must work, each with whether it does.
CheckReady = Callable[[], Mapping[str, bool]]


def create_state_router(check_ready: CheckReady, role: str = "all") -> APIRouter:
    """Return `/health` and `/ready`."""
    router = APIRouter(tags=["server"])

    @router.get("/health", response_model=documents.HealthDocument)
    async def get_health() -> Response:
        """Answers as long as the process lives."""
        return JsonResponse(documents.HealthDocument("ok", __version__, role))

    @router.get("/ready", response_model=documents.ReadyDocument)
    def get_ready() -> Response:
        """200 when every part works, 503 otherwise."""
        parts = check_ready()
        ready = all(parts.values())
        return JsonResponse(documents.ReadyDocument(ready, parts), 200 if ready else 503)

    return router


def create_own_metrics_router(collect: CollectMetrics) -> APIRouter:
    """Return `/metrics` for the root, in Prometheus' text format."""
    router = APIRouter(tags=["server"])

    @router.get("/metrics", response_class=PlainTextResponse)
    def get_own_metrics() -> Response:
        """The server's own counters."""
        return PlainTextResponse(render_metrics(collect()), media_type=_CONTENT_TYPE)

    return router


def render_metrics(metrics: Iterable[OwnMetric]) -> str:
    """Return figures in Prometheus' text format."""
    return "".join(
        f"# HELP {metric.name} {metric.help}\n"
        f"# TYPE {metric.name} {metric.kind}\n"
        f"{metric.name} {float(metric.value)!r}\n"
        for metric in metrics
    )
