"""Pushes one small store, the tick, to every open browser whenever there is something new."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false

import asyncio
import functools
import os
import time
from collections.abc import Callable
from contextlib import suppress

from dash import Dash, ctx, set_props

from longpole_dashboards.alarm import NO_ALARM, Alarm, read_alarm
from longpole_dashboards.formats import NS_PER_MS, NS_PER_S
from longpole_dashboards.reading import Reader
from longpole_server.errors import ServerError
from longpole_server.service import Change

# Browsers are told at most this often, and at least at every heartbeat.
MIN_PUSH_S = 0.3
HEARTBEAT_S = 2.0
# A browser is told that its server lives though nobody answers what fires.
MAX_LOOK_S = 1.0
TICK_ID = "tick"
# Pages look again after so long even when nothing came.
QUIET_LOOK_NS = 10 * NS_PER_S


class Ticks:
    """Makes what browsers are told."""

    def __init__(self, reader: Reader, clock_ns: Callable[[], int]) -> None:
        self._reader = reader
        self._clock_ns = clock_ns
        self._boot = os.urandom(4).hex()

    async def look(self, change: Change, known: Alarm) -> Alarm:
        """Return what fires for who asks; while the store fails, what was `known` last."""
        token = (change.version, int(time.monotonic() / HEARTBEAT_S))
        ask = functools.partial(read_alarm, self._reader.service)
        with suppress(ServerError):
            return await self._reader.run(self._reader.memory.ask, "alarm", token, ask)
        return known

    def make(self, change: Change, alarm: Alarm) -> dict[str, object]:
        """Return what a browser is told now."""
        return make_tick(change, self._boot, self._clock_ns(), alarm)


def register_push(app: Dash, reader: Reader, ticks: Ticks) -> None:
    """Register the one persistent callback. It has no inputs: with any, copies would pile up."""
    feed = reader.service.changes

    @app.callback(websocket=True, persistent=True)
    async def push() -> None:
        alarm = NO_ALARM
        asked: asyncio.Task[Alarm] | None = None
        connection = ctx.websocket
        while connection is not None and not connection.is_shutdown:
            change = feed.current
            asked = asked or asyncio.ensure_future(ticks.look(change, alarm))
            await asyncio.wait([asked], timeout=MAX_LOOK_S)
            if asked.done():
                alarm, asked = asked.result(), None
            set_props(TICK_ID, {"data": ticks.make(change, alarm)})
            await asyncio.sleep(MIN_PUSH_S)
            await feed.wait(change.version, HEARTBEAT_S)


def make_tick(change: Change, boot: str, now_ns: int, alarm: Alarm = NO_ALARM) -> dict[str, object]:
    """Return what a browser is told: versions of one server process differ by `boot`.

    The version also changes with the alerts that are open and with who looks after them, and as
    time goes by: on a silent cluster nodes fall silent.
    """
    return {
        "version": f"{boot}-{change.version}-{alarm.mark}-{now_ns // QUIET_LOOK_NS}",
        "firing": alarm.num_firing,
        "severity": alarm.severity,
        "blind": alarm.blind,
        "as_of_ms": change.ts_ns // NS_PER_MS,
        "now_ms": now_ns // NS_PER_MS,
    }
