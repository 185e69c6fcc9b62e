"""Tells people: takes stored events to the channels, in a thread of its own, until they confirm.

Written down before and after every attempt, so that a kill at any moment loses nothing: what was
sent and not noted is sent again under the same id.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from longpole_server.delivery.channel import Channel
from longpole_server.delivery.notice import Notice, Thread
from longpole_server.delivery.outbox import USUAL_PACE, Due, Outbox, Pace
from longpole_server.delivery.picture import Picture
from longpole_server.delivery.routing import USUAL_ROUTING, Routing
from longpole_server.errors import DeliveryError, StoreError
from longpole_server.model.alert import AlertEvent, AlertMessage, ChannelStatus, Delivery
from longpole_server.read.alerts import AlertReader
from longpole_server.service.alert_book import AlertStore
from longpole_server.service.alert_notes import LateNotes
from longpole_server.service.alerts_interface import ChannelTest

_logger = logging.getLogger(__name__)

_NS_PER_S = 1e9
# What was to be told longer ago and never was is no news any more.
_NEWS_NS = 86_400 * 10**9
# The longest that quiet hours hold back what a digest does not.
_QUIET_NS = 86_400 * 10**9
# Deliveries that are remembered: threads are answered, and channels have a past.
_REMEMBERED_NS = 14 * 86_400 * 10**9
_LONGEST_WAIT_S = 30.0
_SHORTEST_WAIT_S = 0.05
_STORE_RETRY_S = 1.0
_MAX_EVENTS = 20_000
_EVENTS_PAGE = 1_000
# Messages of the past that are brought up to date with one that follows them.
_MAX_OUTDATED = 10
_WITHOUT_RIGHT_S = 2.0


class AlertDeliverer:
    """Delivers in its own thread, which never ends by itself.

    Args:
        channels: Where to.
        store: Holds what was told before, and takes messages and attempts.
        titles: Returns the titles of rules by id.
        base_url: Root of the dashboard for links, empty when it is not known.
        now_ns: Wall clock, UTC nanoseconds.
        pace: How fast people are told.
        routing: Who is told of what.
        may_act: Tells whether this server is the one of several on the database that acts.
        draw: Draws the evidence of an event.
        name_entities: Returns what people call the entities of events, by id.
    """

    def __init__(
        self,
        channels: Sequence[Channel],
        store: AlertStore,
        titles: Callable[[], Mapping[str, str]],
        base_url: str = "",
        now_ns: Callable[[], int] = time.time_ns,
        pace: Pace = USUAL_PACE,
        routing: Routing = USUAL_ROUTING,
        may_act: Callable[[], bool] = lambda: True,
        draw: Callable[[AlertEvent], Picture | None] = lambda _: None,
        name_entities: Callable[[Sequence[AlertEvent]], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._reader = store.reader
        self._notes = LateNotes(now_ns)
        self._name_entities = name_entities
        self._channels = {channel.name: channel for channel in channels}
        self._writer = store.writer
        self._titles = titles
        self._base_url = base_url
        self._now_ns = now_ns
        self._condition = threading.Condition()
        self._inbox: list[AlertEvent] = []
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._draw = draw
        self._pace = pace
        self._routing = routing
        self._may_act = may_act
        self._outbox = Outbox(self._channels, pace, routing)
        self._events: dict[str, AlertEvent] = {}
        self.num_failed = 0
        self._recover(store.reader)

    @property
    def num_left(self) -> int:
        """Events and messages that wait to be told or confirmed; 0 only when nothing does."""
        # In the order in which they pass on, so that none slips by between two looks.
        with self._condition:
            num_events = len(self._inbox) + self._outbox.num_gathering
        return num_events + sum(map(self._outbox.count_waiting, self._channels))

    def on_events(self, events: Sequence[AlertEvent]) -> None:
        """Take note of events that are stored. Cheap; callable from any thread."""
        with self._condition:
            self._inbox += events
            self._condition.notify_all()

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="alert-delivery", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 12.0) -> None:
        """End the thread; what is not delivered yet stays due for the next start."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)
            self._thread = None

    def process(self) -> None:
        """Do what is due now. The thread calls it; tests may call it without a thread.

        Raises:
            StoreError: The database failed; what was not noted is done again.
        """
        with self._condition:
            for event in self._inbox:
                self._take_in(event)
            self._inbox.clear()
        if not self._may_act():
            return
        if self._notes.num_waiting:
            self._notes.retry()
        self._outbox.heed_clock(self._now_ns())
        for message in self._outbox.compose(self._now_ns()):
            self._notes.freeze(lambda message=message: self._writer.write_message(message))
            self._outbox.close_group(message)
        for due in self._outbox.list_due(self._now_ns()):
            if self._stopping or not self._may_act():
                return
            delivery = self._try_send(due)
            # Noted here first: a store that fails must not make it go out again and again.
            self._outbox.add_delivery(delivery)
            self._notes.note(lambda delivery=delivery: self._writer.write_delivery(delivery))

    def list_channels(self) -> Sequence[ChannelStatus]:
        """Return the channels and how their deliveries went."""
        return [self._describe(channel) for channel in self._channels.values()]

    def test_channels(self) -> Sequence[ChannelTest]:
        """Send a sample to every channel and say what each answered."""
        notice = make_sample(self._now_ns(), self._base_url)
        return [try_channel(channel, notice) for channel in self._channels.values()]

    def _describe(self, channel: Channel) -> ChannelStatus:
        record = self._outbox.records[channel.name]
        return ChannelStatus(
            channel=channel.name,
            kind=channel.kind,
            num_waiting=self._outbox.count_waiting(channel.name),
            num_delivered=record.num_delivered,
            num_failed=record.num_failed,
            last_delivered_ns=record.last_delivered_ns,
            last_error=record.last_error,
            last_error_ns=record.last_error_ns,
        )

    def _recover(self, reader: AlertReader) -> None:
        since_ns = self._now_ns() - _REMEMBERED_NS
        messages = reader.list_messages(since_ns)
        for message in messages:
            self._outbox.add_message(message)
        for delivery in reader.list_deliveries(since_ns):
            self._outbox.add_delivery(delivery)
        told = [event_id for message in messages for event_id in message.event_ids]
        self._read_events(told[-_MAX_EVENTS:])
        news_ns = self._now_ns() - _NEWS_NS
        gathered_ns = round(max(self._pace.group_wait_s, self._pace.digest_s) * _NS_PER_S)
        for event in reader.list_events_since(news_ns - gathered_ns - _QUIET_NS):
            if self._outbox.due_alone_ns(event) >= news_ns:
                self._take_in(event)

    def _read_events(self, event_ids: Sequence[str]) -> None:
        for begin in range(0, len(event_ids), _EVENTS_PAGE):
            for event in self._reader.list_events_of(event_ids[begin : begin + _EVENTS_PAGE]):
                self._events[event.event_id] = event

    def _take_in(self, event: AlertEvent) -> None:
        if not event.notify:
            return
        self._events[event.event_id] = event
        while len(self._events) > _MAX_EVENTS:
            del self._events[next(iter(self._events))]
        self._outbox.add_event(event)

    def _try_send(self, due: Due) -> Delivery:
        message_id, channel = due.message.message_id, due.channel
        try:
            remote_id = self._channels[channel].send(self._make_notice(due.message, channel))
        except DeliveryError as error:
            now_ns = self._now_ns()
            next_ns = None
            if not error.is_final:
                next_ns = self._outbox.plan_retry(due, error.retry_after_s, now_ns)
            outcome = "failed" if next_ns is None else "retry"
            _logger.warning("alert message %s to %s: %s", message_id, channel, error.message)
            return Delivery(
                message_id, channel, due.attempt, outcome, error.message, "", now_ns, next_ns
            )
        except StoreError:
            # No channel's fault: what it is to say could not be read.
            raise
        except Exception as error:  # noqa: BLE001 - whatever a channel does, the others go on
            self.num_failed += 1
            now_ns = self._now_ns()
            next_ns = self._outbox.plan_retry(due, None, now_ns)
            text = _say_kind(error)
            outcome = "failed" if next_ns is None else "retry"
            _logger.error("alert message %s to %s: %s", message_id, channel, text)
            return Delivery(message_id, channel, due.attempt, outcome, text, "", now_ns, next_ns)
        return Delivery(
            message_id, channel, due.attempt, "delivered", "", remote_id, self._now_ns()
        )

    def _make_notice(self, message: AlertMessage, channel: str) -> Notice:
        events = self._list_events(message, channel)
        if not events:
            raise DeliveryError("its events are not in the store any more", is_final=True)
        roots = self._find_roots(message, events, channel)
        answered = set[str]().union(*(alert_ids for _, _, alert_ids in roots))
        # Answered is the one message that told of all these alerts; others are brought up to date.
        is_one = len(roots) == 1 and answered == {event.alert_id for event in events}
        names = self._name_entities(events)
        threads = [
            Thread(remote_id, self._retell(root, channel, names)) for root, remote_id, _ in roots
        ]
        return Notice(
            message.message_id,
            events,
            self._titles(),
            self._base_url,
            thread=threads[0] if is_one else None,
            outdated=() if is_one else tuple(threads[-_MAX_OUTDATED:]),
            names=names,
            draw=self._draw,
        )

    def _list_events(self, message: AlertMessage, channel: str) -> tuple[AlertEvent, ...]:
        """Return the events of a message that a channel is to hear of, in order."""
        forgotten = [each for each in message.event_ids if each not in self._events]
        if forgotten:
            self._read_events(forgotten)
        known = [self._events[each] for each in message.event_ids if each in self._events]
        # Routes may have changed since the message was made for the channel.
        chosen = self._routing.choose_events(channel, known) or known
        return tuple(sorted(chosen, key=lambda event: (event.decided_ns, event.event_id)))

    def _find_roots(
        self, message: AlertMessage, events: Sequence[AlertEvent], channel: str
    ) -> list[tuple[AlertMessage, str, set[str]]]:
        """Return the messages that first told of these alerts, and of which of them each."""
        wanted = {event.alert_id for event in events}
        found: dict[str, tuple[AlertMessage, str, set[str]]] = {}
        for event in self._events.values():
            if event.alert_id not in wanted:
                continue
            told = self._outbox.find_told(channel, event.event_id)
            if told is None or told[0].message_id == message.message_id:
                continue
            root, remote_id = told
            found.setdefault(root.message_id, (root, remote_id, set()))[2].add(event.alert_id)
            wanted.discard(event.alert_id)
        return list(found.values())

    def _retell(self, root: AlertMessage, channel: str, names: Mapping[str, str]) -> Notice:
        """Return an earlier message as it should read now."""
        events = self._list_events(root, channel)
        ids = {event.alert_id for event in events}
        ends = {
            event.alert_id: event
            for event in self._events.values()
            if event.kind == "resolved" and event.alert_id in ids
        }
        return Notice(
            root.message_id, events, self._titles(), self._base_url, ends=ends, names=names
        )

    def _run(self) -> None:
        while True:
            wait_s = _LONGEST_WAIT_S
            try:
                self.process()
                next_ns = self._outbox.next_due_ns(self._now_ns())
                if next_ns is not None:
                    wait_s = (next_ns - self._now_ns()) / _NS_PER_S
                if not self._may_act():
                    wait_s = max(wait_s, _WITHOUT_RIGHT_S)
            except StoreError:
                self.num_failed += 1
                _logger.exception("alerts are delivered later")
                wait_s = _STORE_RETRY_S
            except Exception:
                self.num_failed += 1
                _logger.exception("alerts are delivered later")
                wait_s = _LONGEST_WAIT_S
            with self._condition:
                self._condition.wait_for(
                    lambda: self._stopping or bool(self._inbox),
                    min(_LONGEST_WAIT_S, max(_SHORTEST_WAIT_S, wait_s)),
                )
                if self._stopping:
                    return


def try_channel(channel: Channel, notice: Notice) -> ChannelTest:
    """Send a sample and say what the channel answered."""
    try:
        channel.send(notice)
    except DeliveryError as error:
        return ChannelTest(channel.name, channel.kind, error.message)
    except Exception as error:  # noqa: BLE001 - whatever one channel does, the others are tried
        return ChannelTest(channel.name, channel.kind, _say_kind(error))
    return ChannelTest(channel.name, channel.kind, None)


def _say_kind(error: Exception) -> str:
    """Name a foreign error without its text, which may hold a secret."""
    return f"the channel failed: {type(error).__name__}"


def make_sample(now_ns: int, base_url: str = "") -> Notice:
    """Return a notice that says that it is a test."""
    event = AlertEvent(
        event_id="test",
        alert_id="test",
        kind="firing",
        ts_ns=now_ns,
        decided_ns=now_ns,
        rule="test",
        severity="info",
        run_id="",
        run_name="",
        project="",
        entity_kind="server",
        entity_id="this server",
        started_ns=now_ns,
        started_step=None,
        fired_ns=now_ns,
        step=None,
        count=1,
        value=1.0,
        threshold=0.5,
        baseline=None,
        unit="1",
        summary="This is a test: alerts of Longpole arrive here.",
        cause="somebody ran `longpole alerts test`",
        first_look="nothing, all is well.",
        notify=True,
    )
    return Notice(f"test-{now_ns}", (event,), {"test": "Test message"}, base_url)
