"""Who is told of what, and when not: severities, runs, quiet hours."""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from longpole_server.errors import ConfigError
from longpole_server.model.alert import AlertEvent
from longpole_server.model.step import Severity

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
_NS_PER_S = 1_000_000_000
_HOURS = re.compile(r"(\d{2}):(\d{2})-(\d{2}):(\d{2})")
_ROUTES_FORM = "CHANNEL=SEVERITY or CHANNEL=SEVERITY:RUNS, for example slack=critical:team/*"
_HOURS_FORM = "for example 22:00-07:00 Europe/Berlin"


@dataclass(frozen=True, slots=True)
class Route:
    """What a channel is told.

    Attributes:
        severity: The least that it hears of.
        runs: Runs that it is for, as `RUN` or `PROJECT/RUN`, with `*` for any letters. What belongs
            to no run reaches every channel.
    """

    channel: str
    severity: Severity
    runs: str = "*"

    def admits(self, event: AlertEvent) -> bool:
        """Tell whether the channel is to hear of an event."""
        is_grave = SEVERITIES.index(event.severity) >= SEVERITIES.index(self.severity)
        names = (event.run_id, f"{event.project}/{event.run_id}")
        is_its_run = any(fnmatch.fnmatchcase(name, self.runs) for name in names)
        return is_grave and (not event.run_id or is_its_run)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Hours in which only what is critical is told; the rest comes as one message after them.

    Attributes:
        start, end: Of the day in `zone`; a start after the end reaches over midnight.
    """

    start: time
    end: time
    zone: tzinfo

    def hold_until_ns(self, now_ns: int) -> int | None:
        """Return when the quiet hours that hold at a time are over, None when none do."""
        now = datetime.fromtimestamp(now_ns / _NS_PER_S, self.zone)
        is_quiet = (
            self.start <= now.time() < self.end
            if self.start < self.end
            else now.time() >= self.start or now.time() < self.end
        )
        if not is_quiet:
            return None
        days = 1 if now.time() >= self.end else 0
        ending = datetime.combine(now.date() + timedelta(days=days), self.end, self.zone)
        return round(ending.timestamp() * _NS_PER_S)


@dataclass(frozen=True, slots=True)
class Routing:
    """All of it.

    Attributes:
        severity: The least that channels without a route of their own hear of.
    """

    severity: Severity = "warning"
    routes: tuple[Route, ...] = ()
    quiet: QuietHours | None = None

    def choose_channels(
        self, channels: Iterable[str], events: Sequence[AlertEvent]
    ) -> tuple[str, ...]:
        """Return the channels that are to hear of any of these events."""
        return tuple(channel for channel in channels if self.choose_events(channel, events))

    def choose_events(self, channel: str, events: Iterable[AlertEvent]) -> tuple[AlertEvent, ...]:
        """Return the events that a channel is to hear of."""
        routes = self._routes_of(channel)
        return tuple(event for event in events if any(route.admits(event) for route in routes))

    def hold_until_ns(self, events: Sequence[AlertEvent], now_ns: int) -> int | None:
        """Return until when these events are held back, None when they are told now."""
        if self.quiet is None or any(event.severity == "critical" for event in events):
            return None
        return self.quiet.hold_until_ns(now_ns)

    def check(self, channels: Iterable[str]) -> None:
        """Check that every route leads to a channel.

        Raises:
            ConfigError: One does not.
        """
        known = set(channels)
        for route in self.routes:
            if route.channel not in known:
                raise ConfigError(
                    f"LONGPOLE_ALERT_ROUTES: there is no channel {route.channel!r}",
                    hint=f"there are: {', '.join(sorted(known)) or 'none'}",
                )

    def _routes_of(self, channel: str) -> list[Route]:
        own = [route for route in self.routes if route.channel == channel]
        return own or [Route(channel, self.severity)]


USUAL_ROUTING = Routing()


def read_routing(severity: str, routes: str | None, quiet_hours: str | None) -> Routing:
    """Return the routing of three settings.

    Raises:
        ConfigError: One makes no sense.
    """
    return Routing(
        _read_severity(severity, "LONGPOLE_ALERT_SEVERITY"),
        tuple(_read_route(word) for word in (routes or "").split()),
        _read_quiet_hours(quiet_hours) if quiet_hours else None,
    )


def _read_severity(word: str, origin: str) -> Severity:
    if word not in SEVERITIES:
        raise ConfigError(f"{origin}: {word!r} is none of {', '.join(SEVERITIES)}")
    return word


def _read_route(word: str) -> Route:
    channel, separator, rest = word.partition("=")
    severity, _, runs = rest.partition(":")
    if not channel or not separator:
        raise ConfigError(f"LONGPOLE_ALERT_ROUTES: {word!r} is no route", hint=_ROUTES_FORM)
    return Route(channel, _read_severity(severity, "LONGPOLE_ALERT_ROUTES"), runs or "*")


def _read_quiet_hours(text: str) -> QuietHours:
    hours, _, zone = text.strip().partition(" ")
    match = _HOURS.fullmatch(hours)
    try:
        if match is None:
            raise ValueError(hours)
        first, second, third, fourth = map(int, match.groups())
        start, end = time(first, second), time(third, fourth)
        known = ZoneInfo(zone.strip()) if zone.strip() else timezone.utc
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise ConfigError(
            f"LONGPOLE_ALERT_QUIET_HOURS: {text!r} makes no sense", hint=_HOURS_FORM
        ) from None
    if start == end:
        raise ConfigError("LONGPOLE_ALERT_QUIET_HOURS begin when they end", hint=_HOURS_FORM)
    return QuietHours(start, end, known)
