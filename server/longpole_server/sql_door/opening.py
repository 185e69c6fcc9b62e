"""Builds the door on a store."""

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from starlette.routing import Route

from longpole_server.read.free_queries import QueryLimits, open_free_queries
from longpole_server.sql_door.routes import create_sql_routes
from longpole_server.store import Store

# What the threads of people's queries are called.
QUERY_THREADS = "longpole-sql"


@contextmanager
def open_sql_door(
    store: Store, limits: QueryLimits, may_ask: Callable[[str | None], bool]
) -> Generator[Sequence[Route]]:
    """Open connections and threads of its own, and return the routes on them.

    Args:
        store: Outlives the routes.
        limits: For each query.
        may_ask: Tells whether a password lets in, None where the client gives none.
    """
    queries = open_free_queries(store, limits)
    # Not waited for: a query in flight ends by its own limit of time.
    executor = ThreadPoolExecutor(limits.max_queries, thread_name_prefix=QUERY_THREADS)
    try:
        yield create_sql_routes(queries, executor, may_ask)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        queries.close()
