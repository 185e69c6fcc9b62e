"""The one place that knows every part of the server: builds them, starts them, closes them."""

import functools
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI
from starlette.applications import Starlette

from longpole.spool import Spool, SpoolError, SpoolLockedError
from longpole_server.access_parts import may_ask_sql, open_door
from longpole_server.api.application import ApiParts, create_api
from longpole_server.api.login import Door
from longpole_server.config import Config
from longpole_server.data_dir import make_data_dir
from longpole_server.delivery.channel import Channel
from longpole_server.delivery.settings import DeliverySettings, open_channels, read_settings
from longpole_server.errors import StoreError, StoreLockedError
from longpole_server.ingest.admission import Admission
from longpole_server.ingest.http import OtlpFirst, create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import KnownAttempt, Normalizer
from longpole_server.ingest.normalize.free_text import FreeText, choose_rules
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.own_metrics import (
    collect_alert_metrics,
    collect_disk_metrics,
    collect_ingest_metrics,
    collect_read_metrics,
)
from longpole_server.pages import mount_pages, put_before
from longpole_server.read import Reader, open_reader
from longpole_server.read.alerts import open_alert_reader
from longpole_server.service import ChangeFeed
from longpole_server.service.alert_book import AlertStore, StoredBook
from longpole_server.service.alert_desk import AlertDesk, open_alert_desk
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.alert_names import EntityNames
from longpole_server.service.alert_pictures import EvidencePainter
from longpole_server.service.alerting import AlertSources, OwnReading
from longpole_server.service.closing import StepCloser
from longpole_server.service.discovery import Discovery
from longpole_server.service.facts import FactsReader
from longpole_server.service.gpu_joining import GpuJoiner
from longpole_server.service.guarded_service import GuardedService
from longpole_server.service.importing import LogImporter
from longpole_server.service.news import NewsDesk
from longpole_server.service.revisions import Revisions
from longpole_server.service.runs import RunsReader
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.service.store_service import StoreService
from longpole_server.service.transferring import RunTransfer
from longpole_server.store import open_store
from longpole_server.store.location import locate_store
from longpole_server.store.retention import apply_retention, choose_retention
from longpole_server.store.scratch import own_scratch
from longpole_server.store_parts import StoreParts, open_store_parts

_READER_THREADS = 6
# Attempts heard from this recently go on from their newest step after a restart.
_RESUME_NS = 7 * 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Application:
    """An open server: what listeners serve, and the threads behind it.

    Attributes:
        service: What pages and API call.
        api: Pages, API and OTLP/HTTP.
        front: The same, with OTLP/HTTP first: its requests pass by what browsers need.
        otlp_http: OTLP/HTTP alone, for the standard port.
        admission: Decides about senders.
    """

    service: GuardedService
    api: FastAPI
    front: OtlpFirst
    otlp_http: Starlette
    pipeline: Pipeline
    limits: OtlpLimits
    admission: Admission
    closer: StepCloser
    joiner: GpuJoiner
    alert_desk: AlertDesk

    def start(self) -> None:
        """Start the threads. What an earlier process accepted is written first."""
        self.closer.start()
        self.pipeline.start()
        self.joiner.start()
        self.alert_desk.start()

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything accepted is written and derived; tell whether it is.

        What is not written by then stays in the journal for the next start.
        """
        deadline_s = time.monotonic() + timeout_s
        written = self.pipeline.drain(timeout_s)
        return self.closer.drain(max(0.1, deadline_s - time.monotonic())) and written


@dataclass(frozen=True, slots=True)
class _Telling:
    """What alerts stand on. Without the right to write nothing is judged and nobody is told."""

    store: AlertStore
    settings: DeliverySettings
    channels: Sequence[Channel]
    may_act: Callable[[], bool]


def _as_answer(check: Callable[[], None] | None) -> Callable[[], bool]:
    def may_act() -> bool:
        try:
            if check is not None:
                check()
        except StoreError:
            return False
        return True

    return may_act


@contextmanager
def open_application(
    config: Config,
    check_right: Callable[[], None] | None = None,
    *,
    is_served: bool = True,
) -> Generator[Application]:
    """Open store and journal, build every part on them, and close them after use.

    Args:
        config: The configuration.
        check_right: Raises `StoreError` while this server may not write; None where it always may.
        is_served: False for a command that writes what waits and ends: tables keep their rows as
            they do, and no pages are made.

    Raises:
        ConfigError: Settings of alert channels, or others, make no sense.
        StoreLockedError: Another process holds the data directory.
        StoreError: The database or the journal cannot be opened.
    """
    # What makes no sense is refused before anything is opened.
    settings = read_settings(config)
    channels = open_channels(settings)
    free_text = FreeText(
        keep=config.keep_text, rules=choose_rules(config.redact, config.redact_file)
    )
    make_data_dir(config.data_dir)
    with ExitStack() as opened:
        store = open_store(locate_store(config))
        opened.callback(store.close)
        opened.enter_context(own_scratch(config.data_dir / "tmp"))
        reader = open_reader(store, _READER_THREADS)
        opened.callback(reader.close)
        spool = _open_journal(config)
        opened.callback(spool.close)
        alert_reader = open_alert_reader(store)
        opened.callback(alert_reader.close)
        alert_writer = store.new_alert_writer()
        opened.callback(alert_writer.close)
        telling = _Telling(
            AlertStore(alert_reader, alert_writer), settings, channels, _as_answer(check_right)
        )
        door = opened.enter_context(open_door(config))
        may_ask = functools.partial(may_ask_sql, door)
        if is_served:
            apply_retention(store, choose_retention(config.retention))
        parts = opened.enter_context(open_store_parts(config, store, may_ask))
        if parts.session_ends is not None:
            door.access.sessions.share_ends(parts.session_ends)
        writer = SerialWriter(store.writer, check_right)
        application = _build(config, reader, writer, spool, telling, parts, door, free_text)
        if is_served:
            _add_pages(config, application, door)
        opened.callback(application.alert_desk.close)
        opened.callback(application.joiner.close)
        opened.callback(application.closer.close)
        opened.callback(application.pipeline.close)
        yield application


def _build(
    config: Config,
    reader: Reader,
    writer: SerialWriter,
    spool: Spool,
    telling: _Telling,
    parts: StoreParts,
    door: Door,
    free_text: FreeText,
) -> Application:
    changes, revisions, facts = ChangeFeed(), Revisions(), FactsReader(reader)
    closer = StepCloser(reader, writer, changes, revisions, facts)
    joiner = GpuJoiner(reader, writer, revisions, closer.on_joined)
    normalizer = Normalizer(_list_known_attempts(reader), free_text)
    try:
        pipeline = Pipeline(
            spool,
            normalizer,
            writer.write,
            closer.on_written,
            state_dir=config.data_dir / "journal-state",
            claim=parts.batches.claim if parts.batches is not None else None,
        )
    except SpoolError as error:
        raise StoreError(f"cannot open the journal: {error}") from error
    book = StoredBook(telling.store)
    runs = RunsReader(
        reader, revisions, config.lost_after_s, joiner.list_notes,
        # Nobody is called lost for what waits in the journal.
        now_ns=lambda: time.time_ns() - round(pipeline.lag_s * 1e9),
        count_alerts=book.count_firing,
    )  # fmt: skip
    sources = AlertSources(
        runs,
        revisions,
        lambda: _read_own(pipeline, config.data_dir),
        telling.may_act,
    )
    alert_desk = open_alert_desk(
        book,
        HistoryReader(reader, telling.store.reader, runs),
        sources,
        telling.channels,
        telling.settings,
        on_change=lambda: changes.publish(time.time_ns()),
        name_entities=EntityNames(reader).find,
        draw=EvidencePainter(
            reader, telling.store.reader, lambda: book.rules, book.list_past
        ).paint,
    )
    discovery = Discovery(reader, writer)
    service = GuardedService(
        StoreService(
            reader,
            runs,
            facts,
            changes,
            discovery,
            alert_desk.service,
            report_storage=parts.storage.report,
        ),
        door.audit.record,
        runs.get_project,
    )
    limits = OtlpLimits(max_request_bytes=config.max_body_bytes)
    admission = Admission(door.access.find_sender, runs.list_claims)
    otlp_routes = create_otlp_routes(pipeline, limits, admission, discovery.find_job)

    def on_arrived(run_id: str) -> None:
        revisions.bump(run_id)
        changes.publish(time.time_ns())

    api = create_api(
        ApiParts(
            service=service,
            importer=LogImporter(writer, closer, reader),
            otlp_routes=otlp_routes,
            check_ready=lambda: _check_ready(reader, spool, alert_desk),
            collect_metrics=lambda: [
                *collect_ingest_metrics(pipeline, normalizer, closer, joiner, spool, writer),
                *collect_read_metrics([reader.pool, telling.store.reader.pool, parts.pool]),
                *collect_alert_metrics(alert_desk),
                *collect_disk_metrics(config.data_dir),
            ],
            door=door,
            max_import_bytes=config.max_import_bytes,
            sql_routes=parts.sql_routes,
            storage=parts.storage,
            news=NewsDesk(
                changes,
                revisions,
                lambda: joiner.notes,
                alert_desk.service.explain_blindness,
                lambda: pipeline.stats.lag_s,
            ),
            role=config.role,
            transfer=RunTransfer(
                parts.pool, parts.arrivals, alert_desk.evaluator.note_arrival, on_arrived
            ),
        )
    )
    return Application(
        service=service,
        api=api,
        front=OtlpFirst(otlp_routes, api),
        otlp_http=Starlette(routes=list(otlp_routes)),
        pipeline=pipeline,
        limits=limits,
        admission=admission,
        closer=closer,
        joiner=joiner,
        alert_desk=alert_desk,
    )


def _add_pages(config: Config, application: Application, door: Door) -> None:
    if config.role == "all":
        mount_pages(application.api, application.service)
    put_before(application.api, door.access)


def _read_own(pipeline: Pipeline, data_dir: Path) -> OwnReading:
    ingest = pipeline.stats
    dropped = ingest.num_refused + ingest.num_lost_requests
    try:
        disk = shutil.disk_usage(data_dir)
    except OSError:
        return OwnReading(ingest.num_pending, dropped, lag_s=ingest.lag_s)
    used_ratio = disk.used / max(1, disk.used + disk.free)
    return OwnReading(ingest.num_pending, dropped, used_ratio, disk.free, ingest.lag_s)


def _open_journal(config: Config) -> Spool:
    try:
        return Spool(
            config.data_dir / "journal", max_bytes=config.journal_max_bytes, drop_oldest=False
        )
    except SpoolLockedError as error:
        raise StoreLockedError(str(error)) from error
    except SpoolError as error:
        raise StoreError(f"cannot open the journal: {error}") from error


def _list_known_attempts(reader: Reader) -> list[KnownAttempt]:
    since_ns = time.time_ns() - _RESUME_NS
    last_steps: dict[tuple[str, int], int] = {}
    rows = reader.list_attempts()
    for run_id in {row.start.run_id for row in rows if row.last_seen_ns >= since_ns}:
        for step, attempt, _ in reader.list_step_numbers(run_id):
            last_steps[run_id, attempt] = step
    return [
        KnownAttempt(
            start=row.start,
            last_seen_ns=row.last_seen_ns,
            ended_ns=row.end.ended_ns if row.end is not None else None,
            last_step=last_steps.get((row.start.run_id, row.start.attempt)),
        )
        for row in rows
    ]


def _check_ready(reader: Reader, spool: Spool, alert_desk: AlertDesk) -> Mapping[str, bool]:
    # A disk that refused to sync is not trusted again before a restart.
    others = {"journal": not spool.failure, "alerts": not alert_desk.evaluator.is_stuck}
    try:
        reader.list_attempts("")
    except StoreError:
        return {"store": False, **others}
    return {"store": True, **others}
