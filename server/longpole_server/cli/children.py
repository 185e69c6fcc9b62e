"""Programs that run beside the server and never outlive it."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from longpole_sim.tether import tethered

_logger = logging.getLogger(__name__)

_STOP_S = 2.0
_FIRST_RESTART_S = 1.0
_LONGEST_RESTART_S = 30.0


@dataclass(frozen=True, slots=True)
class Child:
    """A program beside the server.

    Attributes:
        name: For messages.
        restarts: Whether it is started again when it ends by itself with an error.
        stop_s: How long it may take to end when it is told to.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    restarts: bool = True
    stop_s: float = _STOP_S


@contextlib.asynccontextmanager
async def supervise(child: Child) -> AsyncGenerator[None]:
    """Run a child while the block runs; then let it finish, within seconds."""
    stop = asyncio.Event()
    task = asyncio.create_task(_keep_running(child, stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def _keep_running(child: Child, stop: asyncio.Event) -> None:
    delay_s = _FIRST_RESTART_S
    while not stop.is_set():
        status = await _run_once(child, stop)
        if stop.is_set() or status == 0:
            return
        if not child.restarts:
            _logger.warning("%s ended with status %d", child.name, status)
            return
        _logger.warning("%s ended with status %d and starts again", child.name, status)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay_s)
        delay_s = min(delay_s * 2, _LONGEST_RESTART_S)


async def _run_once(child: Child, stop: asyncio.Event) -> int:
    """Run a child until it ends or is told to; return its exit status."""
    # In a session of its own it does not get the terminal's Ctrl-C: it ends before the server
    # does, with time to deliver what it holds.
    process = await asyncio.create_subprocess_exec(
        *tethered(child.command), env=dict(child.environment), start_new_session=True
    )
    ended = asyncio.ensure_future(process.wait())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait({ended, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not ended.done():
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.shield(ended), child.stop_s)
        except TimeoutError:
            _logger.warning("%s did not end in time", child.name)
            process.kill()
    return await ended
