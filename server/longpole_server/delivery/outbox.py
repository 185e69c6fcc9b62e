"""What is due, to whom and when. Decides only: sending and storing are its owner's.

An event that people are to be told of stays due until every channel has confirmed its message or
it is given up. Fed with what is stored, it goes on after a restart where it was.
"""

import hashlib
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from longpole_server.delivery.routing import SEVERITIES, USUAL_ROUTING, Routing
from longpole_server.model.alert import AlertEvent, AlertMessage, Delivery

_NS_PER_S = 1_000_000_000
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 600.0
# Tries of one message after which later ones may overtake it.
_BLOCKING_TRIES = 5
GIVE_UP_AFTER_S = 86_400.0
_MAX_MESSAGES = 10_000
_MAX_RUNS = 10_000
# A clock that goes back by less is not worth a word.
_CLOCK_SLACK_NS = 5 * _NS_PER_S
# Stands for the run of what is told of several runs together.
DIGEST = "*"


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast people are told.

    Attributes:
        group_wait_s: Events of one run within this time are told together.
        group_interval_s: After a message about a run the next one waits for so long, and takes with
            it all that happens meanwhile; only what is graver than what was told comes at once.
        spacing_s: Least time between two messages of a channel: Slack takes about one a second.
        digest_s: What is not critical is gathered over all runs and told so often, in one message;
            0 tells it run by run.
    """

    group_wait_s: float = 10.0
    group_interval_s: float = 120.0
    spacing_s: float = 1.1
    digest_s: float = 0.0


USUAL_PACE = Pace()


@dataclass(frozen=True, slots=True)
class Due:
    """A message that a channel is to have now."""

    message: AlertMessage
    channel: str
    attempt: int


@dataclass(slots=True)
class ChannelRecord:
    """How deliveries to one channel went."""

    num_delivered: int = 0
    num_failed: int = 0
    last_try_ns: int = 0
    last_delivered_ns: int | None = None
    last_error: str | None = None
    last_error_ns: int | None = None
    # Until then the channel asked to be left alone.
    held_until_ns: int = 0


@dataclass(slots=True)
class _Waiting:
    message: AlertMessage
    tries: int = 0
    next_ns: int = 0


@dataclass(slots=True)
class _Group:
    since_ns: int
    events: dict[str, AlertEvent] = field(default_factory=dict[str, AlertEvent])


class Outbox:
    """Not thread-safe.

    Args:
        channels: Names of the channels that there are.
        pace: How fast.
        routing: Who is told of what.
    """

    def __init__(
        self, channels: Iterable[str], pace: Pace = USUAL_PACE, routing: Routing = USUAL_ROUTING
    ) -> None:
        self._routing = routing
        self._channels = tuple(channels)
        self._group_wait_ns = round(pace.group_wait_s * _NS_PER_S)
        self._group_interval_ns = round(pace.group_interval_s * _NS_PER_S)
        self._spacing_ns = round(pace.spacing_s * _NS_PER_S)
        self._digest_ns = round(pace.digest_s * _NS_PER_S)
        # By run: when it was told of last, and how grave that was; after a restart the gravest.
        self._last_told: dict[str, tuple[int, int]] = {}
        self._groups: dict[str, _Group] = {}
        # By event: the first message that told of it.
        self._told: dict[str, str] = {}
        # The newest time that was heard of.
        self._latest_ns = 0
        self._messages: OrderedDict[str, AlertMessage] = OrderedDict()
        self._waiting: dict[str, OrderedDict[str, _Waiting]] = defaultdict(OrderedDict)
        self._remote_ids: dict[tuple[str, str], str] = {}
        self.records: dict[str, ChannelRecord] = {name: ChannelRecord() for name in self._channels}

    def heed_clock(self, now_ns: int) -> None:
        """Take note of the time. Where the clock went back, all that waits goes back with it.

        Else a clock that was an hour ahead and is right again would keep people from being told
        for that hour.
        """
        back_ns = self._latest_ns - now_ns
        if back_ns > _CLOCK_SLACK_NS:
            self._go_back(back_ns)
            self._latest_ns = now_ns
        else:
            self._latest_ns = max(self._latest_ns, now_ns)
        for group in self._groups.values():
            group.since_ns = min(group.since_ns, now_ns)

    def _go_back(self, back_ns: int) -> None:
        for record in self.records.values():
            record.last_try_ns -= back_ns
            record.held_until_ns -= back_ns
        for queue in self._waiting.values():
            for waiting in queue.values():
                waiting.next_ns -= back_ns
        for group in self._groups.values():
            group.since_ns -= back_ns
        for run_id, (told_ns, gravity) in self._last_told.items():
            self._last_told[run_id] = (told_ns - back_ns, gravity)

    def add_message(self, message: AlertMessage) -> None:
        """Take in a message that is stored."""
        self._latest_ns = max(self._latest_ns, message.created_ns)
        for event_id in message.event_ids:
            self._told.setdefault(event_id, message.message_id)
        self._messages[message.message_id] = message
        self._note_told(message.run_id, message.created_ns, len(SEVERITIES))
        for channel in message.channels:
            self._waiting[channel].setdefault(message.message_id, _Waiting(message))
        while len(self._messages) > _MAX_MESSAGES:
            message_id, oldest = self._messages.popitem(last=False)
            for event_id in oldest.event_ids:
                self._told.pop(event_id, None)
            for channel in oldest.channels:
                self._remote_ids.pop((channel, message_id), None)

    def add_delivery(self, delivery: Delivery) -> None:
        """Take in an attempt that is stored."""
        self._latest_ns = max(self._latest_ns, delivery.ts_ns)
        record = self.records.setdefault(delivery.channel, ChannelRecord())
        record.last_try_ns = max(record.last_try_ns, delivery.ts_ns)
        if delivery.outcome == "delivered":
            record.num_delivered += 1
            record.last_delivered_ns = delivery.ts_ns
            record.last_error = record.last_error_ns = None
        else:
            record.num_failed += delivery.outcome == "failed"
            record.last_error, record.last_error_ns = delivery.error, delivery.ts_ns
        waiting = self._waiting[delivery.channel]
        if delivery.outcome == "retry":
            if delivery.message_id in waiting:
                waiting[delivery.message_id].tries = delivery.attempt
                waiting[delivery.message_id].next_ns = delivery.next_ns or 0
            return
        waiting.pop(delivery.message_id, None)
        if delivery.remote_id:
            self._remote_ids[delivery.channel, delivery.message_id] = delivery.remote_id

    def add_event(self, event: AlertEvent) -> None:
        """Take in an event that is stored; only those to be told of count, once each."""
        if not event.notify or event.event_id in self._told:
            return
        group = self._groups.setdefault(self._choose_group(event), _Group(event.decided_ns))
        if event.severity == "critical":
            group.events |= self._take_from_digest(event.run_id)
        group.events.setdefault(event.event_id, event)

    def due_alone_ns(self, event: AlertEvent) -> int:
        """Return when an event would be told if nothing else had happened, UTC nanoseconds."""
        due_ns = self._gathered_ns(event.decided_ns, is_digested=event.severity != "critical")
        held_ns = self._routing.hold_until_ns([event], due_ns)
        return due_ns if held_ns is None else max(due_ns, held_ns)

    def _take_from_digest(self, run_id: str) -> dict[str, AlertEvent]:
        """Take out what is gathered about a run: something graver takes it along."""
        digest = self._groups.get(DIGEST)
        if digest is None:
            return {}
        taken = {key: event for key, event in digest.events.items() if event.run_id == run_id}
        for key in taken:
            del digest.events[key]
        if not digest.events:
            del self._groups[DIGEST]
        return taken

    def _choose_group(self, event: AlertEvent) -> str:
        if event.run_id in self._groups:
            return event.run_id
        is_digested = event.severity != "critical" and (
            self._digest_ns > 0
            or self._routing.hold_until_ns([event], event.decided_ns) is not None
        )
        return DIGEST if is_digested else event.run_id

    def compose(self, now_ns: int) -> list[AlertMessage]:
        """Return the messages whose time to gather is over; hand them back once stored."""
        messages: list[AlertMessage] = []
        for run_id, group in self._groups.items():
            if now_ns < self._due_ns(run_id, group, now_ns):
                continue
            events = list(group.events.values())
            messages.append(
                AlertMessage(
                    message_id=_name_message(list(group.events)),
                    run_id=run_id,
                    event_ids=tuple(group.events),
                    channels=self._routing.choose_channels(self._channels, events),
                    created_ns=now_ns,
                )
            )
        return messages

    def close_group(self, message: AlertMessage) -> None:
        """Take note that a composed message is stored."""
        # In this order: who counts meanwhile counts it twice, and never not at all.
        self.add_message(message)
        group = self._groups.pop(message.run_id, None)
        if group is not None:
            self._note_told(message.run_id, message.created_ns, _gravity(group))

    def _note_told(self, run_id: str, created_ns: int, gravity: int) -> None:
        known = self._last_told.get(run_id)
        if known is None or created_ns >= known[0]:
            self._last_told.pop(run_id, None)
            self._last_told[run_id] = (created_ns, gravity)
        if len(self._last_told) > _MAX_RUNS:
            del self._last_told[next(iter(self._last_told))]

    def list_due(self, now_ns: int) -> list[Due]:
        """Return what may be sent now: one message a channel, the oldest first."""
        found: list[Due] = []
        for channel in self._channels:
            if now_ns < self._ready_ns(channel):
                continue
            ready = (each for each in self._list_next(channel) if each.next_ns <= now_ns)
            waiting = next(ready, None)
            if waiting is not None:
                found.append(Due(waiting.message, channel, waiting.tries + 1))
        return found

    def _ready_ns(self, channel: str) -> int:
        record = self.records[channel]
        return max(record.last_try_ns + self._spacing_ns, record.held_until_ns)

    def _list_next(self, channel: str) -> Iterator[_Waiting]:
        """Return the messages of which one may be sent next, the oldest first."""
        for waiting in self._waiting[channel].values():
            yield waiting
            if waiting.tries < _BLOCKING_TRIES:
                # What comes after it must not be read before it.
                return

    def plan_retry(self, due: Due, retry_after_s: float | None, now_ns: int) -> int | None:
        """Return when a message is tried again, None when it is given up.

        The wait doubles with every try; a channel that names one is obeyed.
        """
        wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2.0 ** min(due.attempt - 1, 20))
        if retry_after_s is not None:
            wait_s = max(FIRST_RETRY_S, min(retry_after_s, GIVE_UP_AFTER_S))
        next_ns = now_ns + round(wait_s * _NS_PER_S)
        if retry_after_s is not None:
            # It holds for the channel: another message would be refused as well.
            self.records[due.channel].held_until_ns = next_ns
        age_s = (next_ns - due.message.created_ns) / _NS_PER_S
        return next_ns if age_s <= GIVE_UP_AFTER_S else None

    def count_waiting(self, channel: str) -> int:
        """Return how many messages a channel has not confirmed yet."""
        return len(self._waiting[channel])

    @property
    def num_gathering(self) -> int:
        """Events that wait for others to be told with them."""
        return sum(len(group.events) for group in list(self._groups.values()))

    def next_due_ns(self, now_ns: int) -> int | None:
        """Return when there is something to do next, None when nothing waits."""
        times = [self._due_ns(name, group, now_ns) for name, group in self._groups.items()]
        for channel in self._channels:
            ready_ns = self._ready_ns(channel)
            times += [max(ready_ns, waiting.next_ns) for waiting in self._list_next(channel)]
        return min(times, default=None)

    def _due_ns(self, name: str, group: _Group, now_ns: int) -> int:
        due_ns = self._gathered_ns(group.since_ns, is_digested=name == DIGEST)
        told_ns, told = self._last_told.get(name, (None, 0))
        if name != DIGEST and told_ns is not None and _gravity(group) <= told:
            due_ns = max(due_ns, told_ns + self._group_interval_ns)
        held_ns = self._routing.hold_until_ns(list(group.events.values()), now_ns)
        return due_ns if held_ns is None else max(due_ns, held_ns)

    def _gathered_ns(self, since_ns: int, *, is_digested: bool) -> int:
        """Return when what began to gather is told, unless something holds it back."""
        if is_digested:
            return since_ns + max(self._group_wait_ns, self._digest_ns)
        return since_ns + self._group_wait_ns

    def find_told(self, channel: str, event_id: str) -> tuple[AlertMessage, str] | None:
        """Return the message that told a channel of an event, and what the channel calls it."""
        message_id = self._told.get(event_id, "")
        message = self._messages.get(message_id)
        remote_id = self._remote_ids.get((channel, message_id))
        return None if message is None or remote_id is None else (message, remote_id)


def _gravity(group: _Group) -> int:
    """Return how grave the gravest thing is that is not over, 0 when all is."""
    return max(
        (
            SEVERITIES.index(event.severity) + 1
            for event in group.events.values()
            if event.kind != "resolved"
        ),
        default=0,
    )


def _name_message(event_ids: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(event_ids).encode()).hexdigest()[:16]
