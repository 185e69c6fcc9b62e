"""A server that only shows: pages and API on a store that another server writes."""

import functools
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from fastapi import FastAPI

from longpole_server.access_parts import may_ask_sql, open_door
from longpole_server.api.application import ApiParts, create_api
from longpole_server.api.login import Door
from longpole_server.api.relaying import RelayMiddleware, create_refusing_routes
from longpole_server.config import Config
from longpole_server.data_dir import make_data_dir
from longpole_server.errors import StoreError
from longpole_server.own_metrics import (
    collect_disk_metrics,
    collect_follower_metrics,
    collect_read_metrics,
)
from longpole_server.pages import mount_pages, put_before
from longpole_server.read import Reader, open_reader
from longpole_server.read.alerts import AlertReader, open_alert_reader
from longpole_server.service import ChangeFeed
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.discovery import Discovery
from longpole_server.service.facts import FactsReader
from longpole_server.service.followed_alerts import FollowedAlerts
from longpole_server.service.followed_book import FollowedBook
from longpole_server.service.following import Follower, StoreRounds
from longpole_server.service.guarded_service import GuardedService
from longpole_server.service.revisions import Revisions
from longpole_server.service.runs import RunsReader
from longpole_server.service.store_service import StoreService
from longpole_server.service.transferring import RunTransfer
from longpole_server.service.writer_link import WriterLink
from longpole_server.store import open_store_to_read
from longpole_server.store.location import locate_store
from longpole_server.store.scratch import own_scratch
from longpole_server.store_read_parts import ReadParts, WritesNothing, open_read_parts

_READER_THREADS = 6
# Sessions that ended within this time are asked for each second; longer than a store is away.
_ENDS_S = 600
# While the writing server does not answer, runs heard from this recently may go on.
_LIVE_NS = 300 * 10**9
# Replicas of a cluster follow each other within this time.
_SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class WebApplication:
    """An open server that only shows: what its listener serves, and the threads behind it.

    Attributes:
        api: Pages and API.
        changes, revisions: What the follower feeds.
    """

    api: FastAPI
    changes: ChangeFeed
    revisions: Revisions
    follower: Follower
    rounds: StoreRounds

    @property
    def front(self) -> FastAPI:
        """What listens."""
        return self.api

    def start(self) -> None:
        """Start the threads."""
        self.follower.start()
        self.rounds.start()

    def drain(self, timeout_s: float) -> bool:  # noqa: ARG002 - as of a server that takes data
        """Nothing waits here to be written."""
        return True


@dataclass(frozen=True, slots=True)
class _Alerts:
    """What alerts are read with."""

    reader: AlertReader
    book: FollowedBook


@contextmanager
def open_web_application(config: Config) -> Generator[WebApplication]:
    """Open the store to read, build every part on it, and close them after use.

    Raises:
        ConfigError: Settings make no sense.
        StoreError: The database cannot be opened, or its tables are not of this program.
    """
    make_data_dir(config.data_dir)
    with ExitStack() as opened:
        store = open_store_to_read(locate_store(config))
        opened.callback(store.close)
        opened.enter_context(own_scratch(config.data_dir / "tmp"))
        reader = open_reader(store, _READER_THREADS)
        opened.callback(reader.close)
        alert_reader = open_alert_reader(store)
        opened.callback(alert_reader.close)
        book = FollowedBook(alert_reader)
        book.refresh()
        door = opened.enter_context(open_door(config))
        parts = opened.enter_context(
            open_read_parts(config, store, functools.partial(may_ask_sql, door))
        )
        door.access.sessions.learn_ends(parts.session_ends, door.access.sessions.max_age_s)
        assert config.writer_url is not None and door.access.vouchers is not None  # noqa: S101 - checked by the configuration
        link = WriterLink(config.writer_url, door.access.vouchers, config.writer_ca_file)
        opened.callback(link.close)
        application = _build(config, reader, _Alerts(alert_reader, book), parts, door, link)
        opened.callback(application.rounds.close)
        opened.callback(application.follower.close)
        yield application


def _build(
    config: Config,
    reader: Reader,
    alerts: _Alerts,
    parts: ReadParts,
    door: Door,
    link: WriterLink,
) -> WebApplication:
    changes, revisions = ChangeFeed(), Revisions()
    settle_s = _SETTLE_S if config.clickhouse_cluster is not None else 0.0
    follower = Follower(link, changes, revisions, functools.partial(_list_live, reader), settle_s)
    runs = RunsReader(
        reader,
        revisions,
        config.lost_after_s,
        follower.list_notes,
        # Nobody is called lost for what cannot be known here.
        now_ns=lambda: time.time_ns() - round((follower.away_s + follower.lag_s) * 1e9),
        count_alerts=alerts.book.count_firing,
    )
    service = GuardedService(
        StoreService(
            reader,
            runs,
            FactsReader(reader),
            changes,
            Discovery(reader, WritesNothing()),
            FollowedAlerts(
                alerts.book,
                alerts.reader,
                HistoryReader(reader, alerts.reader, runs),
                link,
                follower.explain_blindness,
                on_act=lambda: changes.publish(time.time_ns()),
            ),
            report_storage=parts.storage.report,
        ),
        door.audit.record,
        runs.get_project,
    )
    api = create_api(
        ApiParts(
            service=service,
            importer=None,
            otlp_routes=create_refusing_routes(link.place),
            check_ready=lambda: _check_ready(reader),
            collect_metrics=lambda: [
                *collect_read_metrics([reader.pool, alerts.reader.pool, parts.pool]),
                *collect_follower_metrics(follower),
                *collect_disk_metrics(config.data_dir),
            ],
            door=door,
            max_import_bytes=config.max_import_bytes,
            sql_routes=parts.sql_routes,
            role="web",
            storage=parts.storage,
            transfer=RunTransfer(parts.pool, WritesNothing(), _ignore, _ignore),
        )
    )
    mount_pages(api, service)
    api.add_middleware(RelayMiddleware, link=link, max_import_bytes=config.max_import_bytes)
    put_before(api, door.access)
    look = _make_look(alerts.book, door, parts)
    rounds = StoreRounds(look, lambda: changes.publish(time.time_ns()))
    return WebApplication(api, changes, revisions, follower, rounds)


def _make_look(book: FollowedBook, door: Door, parts: ReadParts) -> Callable[[], bool]:
    def look() -> bool:
        door.access.sessions.learn_ends(parts.session_ends, _ENDS_S)
        return book.refresh()

    return look


def _list_live(reader: Reader) -> Sequence[str]:
    since_ns = time.time_ns() - _LIVE_NS
    rows = reader.list_attempts()
    return sorted({row.start.run_id for row in rows if row.last_seen_ns >= since_ns})


def _ignore(_: str) -> None:
    """Nothing arrives here."""


def _check_ready(reader: Reader) -> Mapping[str, bool]:
    # Without the server that writes it still shows.
    try:
        reader.list_attempts("")
    except StoreError:
        return {"store": False}
    return {"store": True}
