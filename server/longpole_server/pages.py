"""What stands before an application and on top of it, whatever the server's role."""

import importlib
from collections.abc import Callable
from typing import cast

from fastapi import FastAPI

from longpole_server.api.access import Access, AccessMiddleware
from longpole_server.api.bounded_bodies import BoundedBodiesMiddleware
from longpole_server.api.cookies import OwnCookiesMiddleware
from longpole_server.api.head import HeadMiddleware
from longpole_server.api.security_headers import SecurityHeadersMiddleware
from longpole_server.service import Service

# By name: the pages stand above the server's layers.
_DASHBOARDS = "longpole_dashboards.app"


def mount_pages(api: FastAPI, service: Service) -> None:
    """Put the dashboard's pages behind the API's routes."""
    module = importlib.import_module(_DASHBOARDS)
    mount = cast("Callable[[FastAPI, Service], None]", module.mount)
    mount(api, service)


def put_before(api: FastAPI, access: Access) -> None:
    """Put before all routes what looks at requests, in the order in which it does."""
    # Dash reads bodies before anybody is asked who they are: strangers' are not read at all.
    api.user_middleware.sort(key=lambda each: each.cls is not AccessMiddleware)
    api.add_middleware(BoundedBodiesMiddleware)
    # Before whatever reads cookies: it would decode those of strangers, too.
    api.add_middleware(OwnCookiesMiddleware)
    # Outside of what refuses: a refusal is an answer like any other.
    api.add_middleware(SecurityHeadersMiddleware, asks_who=lambda: not access.book.is_open)
    api.add_middleware(HeadMiddleware)
