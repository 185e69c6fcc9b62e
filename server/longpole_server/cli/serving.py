"""Runs an open application: listeners, signals, and an end within seconds."""

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import replace
from pathlib import Path

import anyio.to_thread
import uvloop

from longpole.log_lines import set_up_logging
from longpole.output import announce
from longpole.patience import raise_file_limit
from longpole_server.app import Application, open_application
from longpole_server.cli.complaints import describe
from longpole_server.cli.http_serving import GRACE_S, serving
from longpole_server.cli.listening import PortTakenError, bind, local_url, port_of
from longpole_server.cli.tls import Certificate, read_certificate
from longpole_server.cli.waiting import wait_for_store
from longpole_server.config import Config, is_loopback
from longpole_server.delivery.settings import open_channels, read_settings
from longpole_server.errors import ConfigError, ServerError
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.read.pool import READ_THREADS
from longpole_server.single_writer import RightToWrite, hold_right_to_write
from longpole_server.sql_door import QUERY_THREADS
from longpole_server.store.location import locate_store
from longpole_server.web_app import WebApplication, open_web_application

_logger = logging.getLogger(__name__)

# Requests that are worked on in threads at a time.
_REQUEST_THREADS = 8
# Seconds for the journal to be written, once requests and websockets have ended.
_DRAIN_S = 2.0
# A guess costs whoever guesses nothing: programs show no token again and again.
_SHORT_TOKEN = 16
# New objects after which the collector looks at the young ones.
_GC_YOUNG_OBJECTS = 50_000

# Entered once the server listens, with its address for programs beside it and that for people; left
# before the listeners close.
Companions = Callable[[str, str], AbstractAsyncContextManager[None]]


def run_server(config: Config, companions: Companions) -> int:
    """Serve until SIGINT or SIGTERM and return the exit status.

    0 done, 1 failed, 2 the settings make no sense.
    """
    _set_up_logging(config.log_format)
    raise_file_limit()
    try:
        # A server that stands by would find out too late.
        open_channels(read_settings(config))
        # Nobody is let wait at a port behind which there is no server yet.
        with (
            _hold_right(config) as right,
            contextlib.closing(bind(config.host, config.port)) as listener,
        ):
            uvloop.run(_serve(config, listener, companions, right))
            status = int(right.is_lost())
        _leave_stuck_queries(status)
        return status
    except ServerError as error:
        print(f"longpole: {describe(error)}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        # While waiting; later it is a signal like any other.
        return 1


def _leave_stuck_queries(status: int) -> None:
    """End here when a query of somebody's does not: Python and the database would wait for it.

    Everything else is closed by now.
    """
    names = (QUERY_THREADS, READ_THREADS)
    asking = [each for each in threading.enumerate() if each.name.startswith(names)]
    for thread in asking:
        thread.join(1.0)
    if any(thread.is_alive() for thread in asking):
        _logger.warning("a query does not end; the server ends without it")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


async def _serve(
    config: Config, listener: socket.socket, companions: Companions, right: RightToWrite
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, stop)
    anyio.to_thread.current_default_thread_limiter().total_tokens = _REQUEST_THREADS
    certificate = read_certificate(config)
    tls = certificate.context if certificate is not None else None
    url = local_url(config.host, port_of(listener), is_encrypted=tls is not None)
    if tls is None and not is_loopback(config.host):
        _logger.warning("without TLS tokens pass the network in clear: see --tls-certificate-file")
    if config.token is not None and len(config.token) < _SHORT_TOKEN:
        _logger.warning(
            "the token has fewer than %d characters and may be guessed: `openssl rand -hex 32`",
            _SHORT_TOKEN,
        )
    if config.is_web and not await wait_for_store(locate_store(config), listener, tls, stop):
        return
    # Links in alerts name it, also where it was free for the system to choose.
    with _open(replace(config, port=port_of(listener)), right) as application:
        calm_garbage_collection()
        application.start()
        async with AsyncExitStack() as running:
            ports = {"http": port_of(listener)}
            await running.enter_async_context(serving(application.front, listener, tls))
            if not config.no_otlp and isinstance(application, Application):
                opened = await _open_standard_ports(application, config, running, certificate)
                ports.update(opened)
            if certificate is not None:
                await running.enter_async_context(_beside(certificate.keep_fresh()))
            if config.ports_file is not None:
                _write_ports(config.ports_file, ports)
            announce(f"Longpole is at {url}")
            own_url = url if tls is None else await _open_own_port(application, running)
            await running.enter_async_context(companions(own_url, config.public_url or url))
            await stop.wait()
        if not await asyncio.to_thread(application.drain, _DRAIN_S):
            _logger.warning("what is not written yet stays in the journal for the next start")


def _hold_right(config: Config) -> AbstractContextManager[RightToWrite]:
    """Wait for the right to write; who only shows needs none."""
    if config.is_web:
        return contextlib.nullcontext(RightToWrite(None, lambda: False))
    return hold_right_to_write(config)


def _open(
    config: Config, right: RightToWrite
) -> AbstractContextManager[Application | WebApplication]:
    if config.is_web:
        return open_web_application(config)
    return open_application(config, right.check)


def calm_garbage_collection() -> None:
    """Spare the collector what lives as long as the process, and let young objects die first.

    Decoding a batch makes many thousand objects that reference counting frees; the collector
    would walk all of them, and stop every thread while it does.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_YOUNG_OBJECTS, 20, 20)


def _on_signal(stop: asyncio.Event) -> None:
    if stop.is_set():
        # Asked twice: what is acknowledged is in the journal, so nothing is lost by it.
        os._exit(1)
    stop.set()


async def _open_own_port(application: Application | WebApplication, running: AsyncExitStack) -> str:
    """Listen for the programs beside this one, whom no certificate names this machine for."""
    listener = running.enter_context(contextlib.closing(bind("127.0.0.1", 0)))
    await running.enter_async_context(serving(application.front, listener))
    return local_url("127.0.0.1", port_of(listener))


async def _open_standard_ports(
    application: Application,
    config: Config,
    running: AsyncExitStack,
    certificate: Certificate | None,
) -> dict[str, int]:
    """Listen on OTLP's own ports as far as they are free; going without one is not an error."""
    ports: dict[str, int] = {}
    try:
        listener = running.enter_context(
            contextlib.closing(bind(config.host, config.otlp_http_port))
        )
    except PortTakenError as error:
        print(f"note: no OTLP/HTTP of its own: {error.message}", file=sys.stderr)
    else:
        tls = certificate.context if certificate is not None else None
        await running.enter_async_context(serving(application.otlp_http, listener, tls))
        ports["otlp_http"] = port_of(listener)
    try:
        grpc = await start_otlp_grpc(
            application.pipeline,
            config.host,
            config.otlp_grpc_port,
            application.limits,
            application.admission,
            certificate.make_grpc_credentials() if certificate is not None else None,
        )
    except ConfigError as error:
        print(f"note: no OTLP/gRPC: {error.message}", file=sys.stderr)
    else:
        running.push_async_callback(grpc.stop, GRACE_S)
        ports["otlp_grpc"] = grpc.port
    return ports


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[None, None, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _write_ports(file: Path, ports: Mapping[str, int]) -> None:
    """Write all at once: who waits for the file never reads half of it."""
    partial = file.with_name(file.name + ".partial")
    try:
        partial.write_text(json.dumps(ports), encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise ConfigError(f"cannot write {partial}: {error.strerror}") from error


def _set_up_logging(form: str) -> None:
    """Log to standard error: what an operator must know, no request lines."""
    set_up_logging(form, sys.stderr)
    for noisy in ("uvicorn", "dash", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It warns of every stranger's bytes that are no HTTP, without saying whose.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
