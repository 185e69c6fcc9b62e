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
def opened_filled_store(directory: Path) -> Generator[Store]:
    """A store with a few rows in every table that a batch touches."""
    with contextlib.closing(open_store(StoreConfig(directory=directory))) as store:
        store.writer.write(make_batch(0), "batch-0")
        yield store


@contextlib.contextmanager
def opened_queries(directory: Path, limits: QueryLimits) -> Generator[tuple[Store, FreeQueries]]:
    with (
        opened_filled_store(directory) as store,
        contextlib.closing(open_free_queries(store, limits)) as queries,
    ):
        yield store, queries


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
def served_queries(
    store: Store, limits: QueryLimits, token: str | None = TOKEN
) -> Generator[tuple[FreeQueries, int]]:
    """Serve the door to a store, and return its queries and its port."""

    def may_ask(password: str | None) -> bool:
        return token is None or password == token

    with (
        contextlib.closing(open_free_queries(store, limits)) as queries,
        ThreadPoolExecutor(2) as executor,
        served(Starlette(routes=list(create_sql_routes(queries, executor, may_ask)))) as port,
    ):
        yield queries, port


@contextlib.contextmanager
def served_door(directory: Path) -> Generator[SqlDoor]:
    with (
        opened_filled_store(directory) as store,
        served_queries(store, QueryLimits(max_s=60.0)) as (queries, port),
    ):
        yield SqlDoor(store, queries, port)
