"""The door for people's SQL on a real embedded store, served by a real HTTP server."""

import contextlib
import socket
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp

from longpole_server.read.free_queries import FreeQueries, QueryLimits, open_free_queries
from longpole_server.sql_door.routes import create_sql_routes
from longpole_server.store import Store, StoreConfig, open_store
from support.store_records import make_batch

TOKEN = "the token"


@dataclass(frozen=True)
class SqlDoor:
    """A served door."""

    store: Store
    queries: FreeQueries
    port: int


@contextlib.contextmanager
def opened_queries(
    directory: Path, limits: QueryLimits | None = None
) -> Generator[tuple[Store, FreeQueries]]:
    """A store with a few rows in every table that a batch touches, and queries on it."""
    store = open_store(StoreConfig(directory=directory))
    store.writer.write(make_batch(0), "batch-0")
    queries = open_free_queries(store, limits or QueryLimits(max_s=5.0))
    try:
        yield store, queries
    finally:
        queries.close()
        store.close()


@contextlib.contextmanager
def served(app: ASGIApp) -> Generator[int]:
    """Serve an application on a free port of loopback, and return the port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextlib.contextmanager
def served_door(directory: Path, token: str | None = TOKEN) -> Generator[SqlDoor]:
    def may_ask(password: str | None) -> bool:
        return token is None or password == token

    with opened_queries(directory) as (store, queries), ThreadPoolExecutor(2) as executor:
        app = Starlette(routes=list(create_sql_routes(queries, executor, may_ask)))
        with served(app) as port:
            yield SqlDoor(store, queries, port)
