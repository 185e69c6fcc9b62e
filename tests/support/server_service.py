"""The service on a real embedded store, driven by hand: no threads, a clock that tests set."""

import itertools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from longpole_server.delivery.channel import Channel
from longpole_server.delivery.settings import DeliverySettings
from longpole_server.model.records import Records
from longpole_server.read import Reader, open_reader
from longpole_server.read.alerts import open_alert_reader
from longpole_server.service import ChangeFeed
from longpole_server.service.alert_book import AlertStore, StoredBook
from longpole_server.service.alert_desk import AlertDesk, Clocks, open_alert_desk
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.alerting import AlertSources, OwnReading
from longpole_server.service.closing import StepCloser
from longpole_server.service.discovery import Discovery
from longpole_server.service.facts import FactsReader
from longpole_server.service.gpu_joining import GpuJoiner
from longpole_server.service.revisions import Revisions
from longpole_server.service.runs import RunsReader
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.service.store_service import StoreService
from longpole_server.store import Store, StoreConfig, open_store
from support.server_runs import BEGIN_NS, S

LOST_AFTER_S = 120.0


@dataclass
class HandClock:
    """Seconds after `BEGIN_NS`, as the test sets them."""

    seconds: float = 0.0

    def now_ns(self) -> int:
        return BEGIN_NS + round(self.seconds * S)

    def now_s(self) -> float:
        return self.seconds


@dataclass
class ServiceBench:
    """A service with everything behind it."""

    clock: HandClock
    reader: Reader
    writer: SerialWriter
    changes: ChangeFeed
    closer: StepCloser
    joiner: GpuJoiner
    service: StoreService
    revisions: Revisions
    alert_store: AlertStore
    alert_desk: AlertDesk
    tokens: "itertools.count[int]" = field(default_factory=itertools.count)

    def write(self, *batches: Records, token: str | None = None) -> None:
        """Store batches and derive what they touch, as the ingest thread and the closer do."""
        for batch in batches:
            self.writer.write(batch, token or f"test-{next(self.tokens)}")
            self.closer.on_written(batch)
        self.derive()

    def derive(self) -> None:
        """Let a second pass and do what is due."""
        self.closer.process()
        self.clock.seconds += 1.0
        self.closer.process()

    def reopened(self) -> "ServiceBench":
        """Return a bench on the same store that remembers nothing, as after a restart."""
        return build_bench(
            self.reader, self.writer, self.clock, self.alert_store, tokens=self.tokens
        )


def build_bench(
    reader: Reader,
    writer: SerialWriter,
    clock: HandClock,
    alert_store: AlertStore,
    channels: Sequence[Channel] = (),
    tokens: "itertools.count[int] | None" = None,
) -> ServiceBench:
    """Build a service on a reader and a writer."""
    changes, revisions, facts = ChangeFeed(), Revisions(), FactsReader(reader)
    closer = StepCloser(reader, writer, changes, revisions, facts, clock.now_ns, clock.now_s)
    joiner = GpuJoiner(reader, writer, revisions, closer.on_joined, clock.now_ns)
    book = StoredBook(alert_store, clock.now_ns)
    runs = RunsReader(
        reader,
        revisions,
        LOST_AFTER_S,
        joiner.list_notes,
        clock.now_ns,
        count_alerts=book.count_firing,
    )
    desk = open_alert_desk(
        book,
        HistoryReader(reader, alert_store.reader, runs, clock.now_s),
        AlertSources(runs, revisions, lambda: OwnReading(0, 0)),
        channels,
        DeliverySettings(base_url="http://dashboard"),
        on_change=lambda: changes.publish(clock.now_ns()),
        clocks=Clocks(clock.now_ns, clock.now_s),
        grace_s=0.0,
    )
    return ServiceBench(
        clock=clock,
        reader=reader,
        writer=writer,
        changes=changes,
        closer=closer,
        joiner=joiner,
        service=StoreService(
            reader,
            runs,
            facts,
            changes,
            Discovery(reader, writer, clock.now_ns),
            desk.service,
            clock.now_ns,
        ),
        revisions=revisions,
        alert_store=alert_store,
        alert_desk=desk,
        tokens=tokens or itertools.count(),
    )


@contextmanager
def opened_bench(place: Path | StoreConfig) -> Generator[ServiceBench]:
    """Open a store, an embedded one in a directory, and build a service on it."""
    config = StoreConfig(directory=place) if isinstance(place, Path) else place
    store: Store = open_store(config)
    reader = open_reader(store)
    alert_store = AlertStore(open_alert_reader(store), store.new_alert_writer())
    try:
        yield build_bench(reader, SerialWriter(store.writer), HandClock(), alert_store)
    finally:
        alert_store.writer.close()
        alert_store.reader.close()
        reader.close()
        store.close()
