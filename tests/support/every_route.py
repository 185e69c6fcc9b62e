"""Every route and websocket of an application, and what a stranger may have of it."""

import re

from fastapi import FastAPI
from starlette.routing import BaseRoute, Mount, WebSocketRoute

# Whoever asks gets these: whether the server lives, the form to sign in, and an address to go to.
OPEN = {
    ("GET", "/api/v1/health"): 200,
    ("GET", "/api/v1/ready"): 200,
    ("GET", "/login"): 200,
    ("HEAD", "/login"): 200,
    ("POST", "/login"): 401,
    ("POST", "/logout"): 303,
    ("GET", "/clickhouse/ping"): 200,
    ("HEAD", "/clickhouse/ping"): 200,
}
OTLP = {"/v1/traces", "/v1/metrics", "/v1/logs"}


def list_requests(api: FastAPI) -> set[tuple[str, str]]:
    """Methods and paths of every route: those of the API by its description, the rest by itself."""
    found = {
        (method.upper(), path)
        for path, methods in api.openapi()["paths"].items()
        for method in methods
    }
    for route in api.routes:
        path = getattr(route, "path", None)
        if isinstance(route, Mount):
            found |= {("GET", f"{path}/x")}
        elif path is not None and not is_websocket(route):
            methods = getattr(route, "methods", None) or {"GET", "POST"}
            found |= {(method, path) for method in methods}
    # What no route knows, below the API and among the pages.
    found |= {("GET", "/api/v1/none"), ("POST", "/api"), ("GET", "/run"), ("GET", "/none")}
    return {(method, re.sub(r"[{}]|:path", "", path)) for method, path in found}


def is_websocket(route: BaseRoute) -> bool:
    return isinstance(route, WebSocketRoute)


def list_websockets(api: FastAPI) -> list[str]:
    """Paths of every websocket."""
    return [route.path for route in api.routes if isinstance(route, WebSocketRoute)]
