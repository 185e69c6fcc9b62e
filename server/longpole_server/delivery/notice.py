"""What people are told: events of one run, told together, in words and numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from longpole_server.alerts.events import make_link
from longpole_server.alerts.wording import format_number, format_seconds
from longpole_server.delivery.picture import Picture
from longpole_server.model.alert import AlertEvent
from longpole_server.model.step import Severity

_NS_PER_S = 1e9
# Groups of alerts that a message shows; it counts the rest.
MAX_PARTS = 10
_SHOWN_ENTITIES = 5
_SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
_OF_KIND = {"firing": "", "repeated": "still: ", "resolved": "over: "}


@dataclass(frozen=True, slots=True)
class Thread:
    """The message that an earlier notice became, for channels that can answer and change it.

    Attributes:
        remote_id: What the channel calls it.
        notice: The notice as it should read now.
    """

    remote_id: str
    notice: "Notice"


@dataclass(frozen=True, slots=True)
class Notice:
    """What one message says.

    Attributes:
        message_id: The same message has the same id, however often it is sent.
        events: In the order in which they were decided, at least one.
        titles: Titles of rules by id.
        base_url: Root of the dashboard, empty when it is not known.
        ends: The events that ended alerts since, by alert, though `events` do not say so.
        outdated: Messages that told of these alerts before and are answered elsewhere.
        names: What people call entities, by id; those without one are called by their id.
        draw: Draws the evidence of an event, None where there is nothing to see. Called by channels
            that take pictures.
    """

    message_id: str
    events: tuple[AlertEvent, ...]
    titles: Mapping[str, str] = field(default_factory=dict[str, str])
    base_url: str = ""
    thread: Thread | None = None
    ends: Mapping[str, AlertEvent] = field(default_factory=dict[str, AlertEvent])
    outdated: tuple[Thread, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    draw: Callable[[AlertEvent], Picture | None] = lambda _: None

    @property
    def severity(self) -> Severity:
        """The gravest of its events."""
        return find_gravest(self.events)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is firing any more."""
        return all(self.is_event_over(event) for event in self.events)

    def is_event_over(self, event: AlertEvent) -> bool:
        """Tell whether the alert of an event is over."""
        last = [each for each in self.events if each.alert_id == event.alert_id][-1]
        return last.kind == "resolved" or event.alert_id in self.ends


@dataclass(frozen=True, slots=True)
class Part:
    """Alerts of one rule in the same state, told as one.

    Attributes:
        title: In one line, with what it is about.
        summary: What is wrong, in one sentence.
        facts: Numbers, since when, how often.
        advice: Likely cause and first look; empty for what is over.
        link: Empty when the dashboard's address is not known.
    """

    severity: Severity
    is_over: bool
    title: str
    summary: str
    facts: str
    advice: str
    link: str


def make_title(notice: Notice) -> str:
    """Return the notice in one line."""
    parts = make_parts(notice)
    what = parts[0].title if len(parts) == 1 else _count_alerts(parts)
    runs = {event.run_id for event in notice.events}
    whose = describe_run(notice.events[0]) if len(runs) == 1 else f"{len(runs)} runs"
    return f"{whose}: {what}"


def _count_alerts(parts: Sequence["Part"]) -> str:
    num_over = sum(part.is_over for part in parts)
    if num_over == len(parts):
        return f"over: {num_over} alerts"
    num_open = len(parts) - num_over
    what = f"{num_open} alert{'s' if num_open > 1 else ''}"
    return f"{what}, {num_over} over" if num_over else what


def find_gravest(events: Sequence[AlertEvent]) -> Severity:
    """Return the gravest severity among events."""
    found = {event.severity for event in events}
    return next(severity for severity in reversed(_SEVERITIES) if severity in found)


def describe_run(event: AlertEvent) -> str:
    """Return run and project of an event."""
    if not event.run_id:
        return "Longpole server"
    name = event.run_name or event.run_id
    return (
        f"{event.project}/{name}" if event.project and not name.startswith(event.project) else name
    )


def make_parts(notice: Notice) -> list[Part]:
    """Return what there is to tell: first what fires, the gravest first."""
    groups: dict[tuple[str, str, bool], list[AlertEvent]] = {}
    newest: dict[str, AlertEvent] = {event.alert_id: event for event in notice.events}
    for told in newest.values():
        event = notice.ends.get(told.alert_id, told)
        key = (event.run_id, event.rule, notice.is_event_over(event))
        groups.setdefault(key, []).append(event)
    parts = [_make_part(notice, group, is_over) for (_, _, is_over), group in groups.items()]
    return sorted(parts, key=lambda part: (part.is_over, -_SEVERITIES.index(part.severity)))


def make_text(notice: Notice) -> str:
    """Return the notice as plain text."""
    lines: list[str] = []
    parts = make_parts(notice)
    for part in parts[:MAX_PARTS]:
        lines += [f"[{'over' if part.is_over else part.severity}] {part.title}", part.summary]
        lines += [text for text in (part.facts, part.advice, part.link) if text]
        lines.append("")
    if len(parts) > MAX_PARTS:
        lines.append(f"and {len(parts) - MAX_PARTS} more")
    return "\n".join(lines).strip()


def _make_part(notice: Notice, events: Sequence[AlertEvent], is_over: bool) -> Part:
    first = events[0]
    title = notice.titles.get(first.rule, first.rule)
    if first.entity_kind not in ("run", "server"):
        # How many comes first: long names may be cut off.
        many = f" ({len(events)})" if len(events) > _SHOWN_ENTITIES else ""
        title = f"{title}{many}: {_list_entities(notice, events)}"
    if len({event.run_id for event in notice.events}) > 1:
        title = f"{title} ({describe_run(first)})"
    prefix = "over: " if is_over else _OF_KIND.get(first.kind, "")
    return Part(
        severity=find_gravest(events),
        is_over=is_over,
        title=f"{prefix}{title}",
        summary=first.summary,
        facts=_describe_end(first) if is_over else _describe_numbers(first),
        advice="" if is_over else f"Likely cause: {first.cause}\nLook first at: {first.first_look}",
        link=f"{notice.base_url.rstrip('/')}{make_link(first)}" if notice.base_url else "",
    )


def _list_entities(notice: Notice, events: Sequence[AlertEvent]) -> str:
    names = [notice.names.get(event.entity_id, event.entity_id) for event in events]
    shown = ", ".join(names[:_SHOWN_ENTITIES])
    more = len(names) - _SHOWN_ENTITIES
    return f"{shown} and {more} more" if more > 0 else shown


def _describe_numbers(event: AlertEvent) -> str:
    facts = [f"value {format_number(event.value, event.unit)}"]
    if event.baseline is not None:
        facts.append(f"usual {format_number(event.baseline, event.unit)}")
    if event.threshold is not None:
        facts.append(f"limit {format_number(event.threshold, event.unit)}")
    if event.started_step is not None:
        facts.append(f"since step {event.started_step}")
    seen = f"first seen {_format_time(event.started_ns)}"
    if event.count > 1:
        seen = f"seen {event.count} times, first {_format_time(event.started_ns)}, last "
        seen += _format_time(event.ts_ns)
    return " · ".join([*facts, seen])


def _describe_end(event: AlertEvent) -> str:
    lasted_s = (event.ts_ns - (event.fired_ns or event.started_ns)) / _NS_PER_S
    why = f" ({event.comment})" if event.comment else ""
    return f"It lasted {format_seconds(max(0.0, lasted_s))}{why}."


def _format_time(ts_ns: int) -> str:
    return datetime.fromtimestamp(ts_ns / _NS_PER_S, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
