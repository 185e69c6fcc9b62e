"""What a server that only shows needs of a store beside its readers: nothing of it writes."""

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.routing import Route

from longpole_server.config import Config
from longpole_server.errors import ForbiddenError
from longpole_server.model.discovery import ScrapeTarget
from longpole_server.read.free_queries import QueryLimits
from longpole_server.read.pool import ClientPool
from longpole_server.service.storage import Storage
from longpole_server.sql_door import open_sql_door
from longpole_server.store import Store
from longpole_server.store.client import READ_SETTINGS
from longpole_server.store.retention import choose_retention
from longpole_server.store.session_ends import SessionEnds

_THREADS = 2


class WritesNothing:
    """Stands where another server writes: what would end here has been passed on before."""

    def store(self, table: str, file: Path, run_id: str) -> int:  # noqa: ARG002 - as others do
        """Refuse rows of an exported run."""
        raise ForbiddenError("this server writes nothing")

    def write_scrape_targets(self, targets: Sequence[ScrapeTarget]) -> None:  # noqa: ARG002
        """Refuse pages that agents are to scrape."""
        raise ForbiddenError("this server writes nothing")


@dataclass(frozen=True, slots=True)
class ReadParts:
    """Parts on a store that another server writes.

    Attributes:
        pool: Connections for what takes long: sizes, exports.
        sql_routes: The door for people's own SQL; empty when it is closed.
        storage: What the store holds.
        session_ends: Knows which sessions ended at other servers.
    """

    pool: ClientPool
    sql_routes: Sequence[Route]
    storage: Storage
    session_ends: SessionEnds


@contextmanager
def open_read_parts(
    config: Config, store: Store, may_ask: Callable[[str | None], bool]
) -> Generator[ReadParts]:
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
        session_ends = SessionEnds(store.new_limited_client(READ_SETTINGS))
        opened.callback(session_ends.close)
        sql_routes: Sequence[Route] = ()
        if not config.no_sql_door:
            limits = QueryLimits(config.sql_max_s, config.sql_max_memory_bytes, config.sql_max_rows)
            sql_routes = opened.enter_context(open_sql_door(store, limits, may_ask))
        yield ReadParts(pool, sql_routes, Storage(pool, store.config, retention), session_ends)
