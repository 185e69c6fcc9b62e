"""What looks at the store itself rather than at runs in it: built here for the application."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from starlette.routing import Route

from longpole_server.config import Config
from longpole_server.read.free_queries import QueryLimits
from longpole_server.read.pool import ClientPool
from longpole_server.service.storage import Storage
from longpole_server.sql_door import open_sql_door
from longpole_server.store import Store
from longpole_server.store.arrivals import Arrivals, open_arrivals
from longpole_server.store.client import WRITE_SETTINGS
from longpole_server.store.retention import choose_retention
from longpole_server.store.session_ends import SessionEnds
from longpole_server.store.stored_batches import StoredBatches

_THREADS = 2


@dataclass(frozen=True, slots=True)
class StoreParts:
    """Parts on a store.

    Attributes:
        pool: Connections for what takes long: sizes, exports.
        sql_routes: The door for people's own SQL; empty when it is closed.
        storage: What the store holds.
        arrivals: Takes rows of exported runs.
        batches: Knows what other servers stored; None where there is no other.
        session_ends: Knows which sessions ended at other servers; None likewise.
    """

    pool: ClientPool
    sql_routes: Sequence[Route]
    storage: Storage
    arrivals: Arrivals
    batches: StoredBatches | None
    session_ends: SessionEnds | None


@contextmanager
def open_store_parts(
    config: Config, store: Store, may_ask: Callable[[str | None], bool]
) -> Generator[StoreParts]:
    """Open the parts.

    Args:
        config: Of the server.
        store: Open.
        may_ask: Tells whether people's own SQL is answered with a password, None without one.

    Raises:
        ConfigError: The retention names a table that there is not.
        StoreError: The database failed.
    """
    retention = choose_retention(config.retention)
    with ExitStack() as opened:
        pool = ClientPool(store.new_reader_client, _THREADS)
        opened.callback(pool.close)
        arrivals = open_arrivals(store)
        opened.callback(arrivals.close)
        batches: StoredBatches | None = None
        session_ends: SessionEnds | None = None
        if store.config.url is not None:
            batches = StoredBatches(store.new_limited_client(WRITE_SETTINGS))
            opened.callback(batches.close)
            session_ends = SessionEnds(
                store.new_limited_client(WRITE_SETTINGS), retention.get("stored_batches")
            )
            opened.callback(session_ends.close)
        sql_routes: Sequence[Route] = ()
        if not config.no_sql_door:
            limits = QueryLimits(config.sql_max_s, config.sql_max_memory_bytes, config.sql_max_rows)
            sql_routes = opened.enter_context(open_sql_door(store, limits, may_ask))
        storage = Storage(pool, store.config, retention)
        yield StoreParts(pool, sql_routes, storage, arrivals, batches, session_ends)
