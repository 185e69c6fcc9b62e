"""Pushes one small store, the tick, to every open browser whenever there is something new."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false

import asyncio
import os
from collections.abc import Callable

from dash import Dash, ctx, set_props

from longpole_dashboards.formats import NS_PER_MS
from longpole_server.service import Change, ChangeFeed

# Browsers are told at most this often, and at least at every heartbeat.
MIN_PUSH_S = 0.3
HEARTBEAT_S = 2.0
TICK_ID = "tick"


def register_push(app: Dash, feed: ChangeFeed, clock_ns: Callable[[], int]) -> None:
    """Register the one persistent callback. It has no inputs: with any, copies would pile up."""
    boot = os.urandom(4).hex()

    @app.callback(websocket=True, persistent=True)
    async def push() -> None:
        connection = ctx.websocket
        while connection is not None and not connection.is_shutdown:
            change = feed.current
            set_props(TICK_ID, {"data": make_tick(change, boot, clock_ns())})
            await asyncio.sleep(MIN_PUSH_S)
            await feed.wait(change.version, HEARTBEAT_S)


def make_tick(change: Change, boot: str, now_ns: int) -> dict[str, object]:
    """Return what a browser is told: versions of one server process differ by `boot`."""
    return {
        "version": f"{boot}-{change.version}",
        "as_of_ms": change.ts_ns // NS_PER_MS,
        "now_ms": now_ns // NS_PER_MS,
    }
