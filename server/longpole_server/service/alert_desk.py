"""Everything about alerts in one bundle: the book, who judges, who tells, and who answers."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from longpole_server.delivery.channel import Channel
from longpole_server.delivery.picture import Picture
from longpole_server.delivery.settings import DeliverySettings
from longpole_server.model.alert import AlertEvent
from longpole_server.service.alert_book import StoredBook
from longpole_server.service.alert_delivery import AlertDeliverer
from longpole_server.service.alert_histories import HistoryReader
from longpole_server.service.alert_service import AlertService
from longpole_server.service.alerting import GRACE_S, AlertEvaluator, AlertSources


@dataclass(frozen=True, slots=True)
class AlertDesk:
    """The parts, wired together."""

    book: StoredBook
    histories: HistoryReader
    evaluator: AlertEvaluator
    deliverer: AlertDeliverer
    service: AlertService

    def start(self) -> None:
        """Start both threads."""
        self.deliverer.start()
        self.evaluator.start()

    def close(self) -> None:
        """End both threads; what is not delivered yet stays due."""
        self.evaluator.close()
        self.deliverer.close()


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall clock in UTC nanoseconds, and a monotonic one in seconds."""

    now_ns: Callable[[], int] = time.time_ns
    now_s: Callable[[], float] = time.monotonic


def open_alert_desk(
    book: StoredBook,
    histories: HistoryReader,
    sources: AlertSources,
    channels: Sequence[Channel],
    settings: DeliverySettings,
    on_change: Callable[[], None],
    clocks: Clocks | None = None,
    grace_s: float = GRACE_S,
    draw: Callable[[AlertEvent], Picture | None] = lambda _: None,
    name_entities: Callable[[Sequence[AlertEvent]], Mapping[str, str]] = lambda _: {},
) -> AlertDesk:
    """Wire the parts together.

    Args:
        book: The alerts.
        histories: Reads what is judged.
        sources: What there is to judge.
        channels: Where alerts go.
        settings: Where links lead, and who is told of what.
        on_change: Told after alerts changed.
        clocks: In place of the real ones.
        grace_s: Seconds after the start in which nothing is judged by time.
        draw: Draws the evidence of an event.
        name_entities: Returns what people call the entities of events, by id.

    Raises:
        StoreError: The database failed.
    """
    clocks = clocks or Clocks()
    deliverer = AlertDeliverer(
        channels,
        book.store,
        titles=lambda: {rule.rule_id: rule.title for rule in book.rules},
        base_url=settings.base_url,
        now_ns=clocks.now_ns,
        pace=settings.pace,
        routing=settings.routing,
        may_act=sources.may_act,
        draw=draw,
        name_entities=name_entities,
    )
    book.add_listener(deliverer.on_events)
    evaluator = AlertEvaluator(
        book, histories, sources, on_change, clocks.now_ns, clocks.now_s, grace_s
    )
    service = AlertService(
        book,
        book.store.reader,
        histories,
        deliverer,
        clocks.now_ns,
        lambda: evaluator.stats.age_s if evaluator.is_stuck else 0.0,
    )
    return AlertDesk(book, histories, evaluator, deliverer, service)
