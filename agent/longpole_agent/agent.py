"""Builds the parts of the agent from its configuration, and runs them until it is told to stop."""

import asyncio
import json
import logging
import os
import random
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from longpole import __version__
from longpole.host_names import is_loopback
from longpole.spool import Spool, SpoolError
from longpole_agent.batch import PROTOBUF, Batch, Signal
from longpole_agent.clock import SystemClock
from longpole_agent.config import Config
from longpole_agent.counters import Counters
from longpole_agent.discovery.annotated_pods import find_pods
from longpole_agent.discovery.finder import EngineFinder, ListCandidates
from longpole_agent.discovery.local_engines import find_engine_ports, read_system_tables
from longpole_agent.encode import MetricsEncoder, encode_lanes
from longpole_agent.errors import ConfigError, DiskError
from longpole_agent.forward import Forwarder
from longpole_agent.identity import load_origin, write_atomically
from longpole_agent.intake import Intake
from longpole_agent.own_metrics import Parts, collect_metrics
from longpole_agent.peers import ProcessPeers
from longpole_agent.receiver.form import check_form
from longpole_agent.receiver.host_door import HostDoor
from longpole_agent.receiver.listen import GrpcListener, HttpListener, PortTakenError, bind
from longpole_agent.receiver.metrics_page import MetricsDoor
from longpole_agent.receiver.otlp_grpc import make_grpc_server
from longpole_agent.receiver.otlp_http import OtlpHttpApp
from longpole_agent.receiver.rl_insight_door import App, RlInsightDoor
from longpole_agent.receiver.room import Room
from longpole_agent.receiver.stamping import Stamper
from longpole_agent.sampler import Sampler
from longpole_agent.server_api import HttpServerApi
from longpole_agent.sources.host import HostSource, list_addresses
from longpole_agent.sources.monitor_pages import STEP_PATH
from longpole_agent.sources.nvml.source import NvmlSource
from longpole_agent.sources.own import OwnSource
from longpole_agent.sources.owners import ProcessOwners
from longpole_agent.sources.pages import HttpPages
from longpole_agent.sources.pod_resources import PodResourcesSource
from longpole_agent.sources.ray.lanes import TitleLane
from longpole_agent.sources.ray.processes import ProcessTable
from longpole_agent.sources.ray.source import RaySource
from longpole_agent.sources.scraping import ScrapeSource
from longpole_agent.sources.simulated import SimulatedSource
from longpole_agent.sources.source import Point, Source
from longpole_agent.targets import RAY_JOB, TargetList
from longpole_agent.upstream import HttpUpstream

_log = logging.getLogger(__name__)

# Small, so that opening the spool and dropping from it stay cheap.
_SEGMENT_BYTES = 4 << 20
_DRAIN_S = 5.0
# A page names each worker several times.
_RAY_PAGE_BYTES = 32 << 20
# Decoded off the event loop when larger or compressed.
_DECODE_INLINE_BYTES = 64 * 1024


class Agent:
    """The whole agent.

    Raises:
        ConfigError: The configuration cannot be met, e.g. another agent holds the data directory.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._counters = Counters()
        upstream = HttpUpstream(config.server, config.token)
        try:
            self._spool = Spool(
                config.data_dir / "spool",
                config.spool_bytes,
                _SEGMENT_BYTES,
                max_age_s=config.spool_hours * 3600.0,
            )
            self._origin = load_origin(config.data_dir)
        except (OSError, SpoolError) as error:
            raise ConfigError(str(error), "choose another --data-dir") from error
        self._forwarder = Forwarder(
            self._spool, upstream, self._counters, jitter=random.SystemRandom().random
        )
        self._intake = Intake(self._spool, self._forwarder.wake)
        self._peers = ProcessPeers(config.host_name)
        pages = HttpPages()
        self._targets = TargetList(
            [each for each in config.scrape_targets if each.job != RAY_JOB],
            HttpServerApi(config.server, config.token),
            config.host_name,
            list_addresses,
            find=tuple if config.no_discovery else _make_finder(pages),
        )
        self._scraping = ScrapeSource(
            self._targets,
            pages,
            self._peers,
            config.scrape_interval_s,
            config.host_name,
            glance=HttpPages(path=STEP_PATH),
        )
        self._nvml: NvmlSource | None = None
        if not config.no_nvml:
            self._nvml = NvmlSource(
                ProcessOwners(), with_gpm=not config.no_gpm, first_retry_s=config.nvml_retry_s
            )
        self._encoder = MetricsEncoder(config.host_name, os.getpid())
        self._sampler = Sampler(
            self._make_sources(),
            config.interval_s,
            self._publish,
            self._counters,
            SystemClock(),
        )
        # One thread: a request is decompressed whole to be checked, but only one at a time.
        self._checker = ThreadPoolExecutor(1, thread_name_prefix="check")
        self._http: HttpListener | None = None
        self._grpc: GrpcListener | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then deliver what there is for a few seconds.

        Raises:
            ConfigError: A port is taken, and the operator requires it.
            DiskError: The disk refused.
        """
        loop = asyncio.get_running_loop()
        self._forwarder.start(lambda: loop.call_soon_threadsafe(stop.set))
        self._intake.start()
        try:
            if not self._config.no_otlp:
                await self._listen()
            if not self._config.no_scrape:
                self._targets.start()
                self._scraping.start()
            self._sampler.start()
            _log.info("%s", self._describe_start())
            await stop.wait()
            _log.info("stopping")
        finally:
            await self._close()
        if self._forwarder.failure:
            raise DiskError(self._forwarder.failure)

    def describe_health(self) -> dict[str, Any]:
        """Return the object of `GET /health`, `/ready` and `/live`.

        It is not ready while GPUs that were there cannot be sampled, and not alive any more when
        only a new container brings them back.
        """
        spool, counters, trouble = self._spool, self._counters, self._forwarder.trouble
        nvml = self._nvml
        gpu_trouble = "" if nvml is None else nvml.trouble
        if nvml is not None and self._config.require_gpus and nvml.num_gpus == 0:
            gpu_trouble = gpu_trouble or "no GPU has answered yet"
        sources = [
            {
                "name": state.name,
                "points": state.num_points,
                "missed_ticks": state.num_missed,
                "error": state.error or None,
            }
            for state in self._sampler.states
        ]
        return {
            "status": "degraded"
            if trouble or gpu_trouble or any(source["error"] for source in sources)
            else "ok",
            "ready": not gpu_trouble,
            "live": nvml is None or not nvml.needs_restart,
            "version": __version__,
            "host": self._config.host_name,
            "server": self._config.server,
            "trouble": trouble or gpu_trouble or None,
            "spool": {
                "records": spool.num_pending,
                "bytes": spool.num_bytes,
                "dropped": spool.num_dropped,
                "damaged": spool.num_damaged,
            },
            "received": counters.received,
            "forwarded": counters.forwarded,
            "rejected": counters.rejected,
            "missed_ticks": counters.missed_ticks,
            "sources": sources,
            "scrape": self._scraping.describe(),
        }

    def _make_sources(self) -> list[Source]:
        config = self._config
        sources: list[Source] = [
            HostSource(),
            OwnSource(self._spool, self._counters, config.data_dir),
        ]
        if self._nvml is not None:
            sources.append(self._nvml)
        if config.pod_resources_socket is not None:
            sources.append(PodResourcesSource(config.pod_resources_socket))
        if config.simulated_gpus is not None:
            sources.append(SimulatedSource(config.simulated_gpus))
        if not config.no_scrape:
            sources.append(self._scraping)
        if not config.no_ray:
            fetch = None if config.no_scrape else HttpPages(max_bytes=_RAY_PAGE_BYTES)
            pages = [each.address for each in config.scrape_targets if each.job == RAY_JOB]
            sources.append(RaySource(ProcessTable(), fetch, self._publish_lanes, pages))
        return sources

    async def _listen(self) -> None:
        config = self._config
        room = Room(config.max_request_bytes)
        stamp = Stamper(self._peers, config.host_name, self._scraping)
        problems: list[str] = []
        try:
            listening = bind(config.otlp_host, config.otlp_http_port)
            app = OtlpHttpApp(
                self._store, room, config.max_request_bytes, self.describe_health, stamp
            )
            door = RlInsightDoor(app, self._targets.register, self._peers, config.host_name)
            parts = Parts(
                self._spool, config.spool_bytes, self._counters, self._forwarder, self._sampler,
                self._nvml,
            )  # fmt: skip
            metrics = MetricsDoor(door, lambda: collect_metrics(parts))
            self._http = HttpListener(self._guard(metrics), listening)
            await self._http.start()
        except PortTakenError as error:
            problems.append(f"OTLP/HTTP on {error}")
        try:
            server = make_grpc_server(self._store, config.max_request_bytes, stamp)
            self._grpc = GrpcListener(server, config.otlp_host, config.otlp_grpc_port)
            await self._grpc.start()
        except PortTakenError as error:
            problems.append(f"OTLP/gRPC on {error}")
        if problems and config.require_otlp:
            raise ConfigError(f"cannot receive {' and '.join(problems)}")
        for problem in problems:
            _log.warning("cannot receive %s; going on without", problem)
        if config.ports_file is not None:
            _write_ports(config.ports_file, self._http, self._grpc)

    def _guard(self, app: App) -> App:
        """Return what answers on the OTLP/HTTP port."""
        if not is_loopback(self._config.otlp_host):
            return app
        return HostDoor(app, {self._config.host_name.lower(), socket.gethostname().lower()})

    async def _store(
        self, signal: Signal, body: bytes, content_type: str, content_encoding: str
    ) -> None:
        if content_encoding or len(body) > _DECODE_INLINE_BYTES:
            await asyncio.get_running_loop().run_in_executor(
                self._checker, check_form, signal, body, content_type, content_encoding
            )
        else:
            check_form(signal, body, content_type, content_encoding)
        batch = Batch(signal, body, content_type, content_encoding, self._origin)
        await asyncio.wrap_future(self._intake.store(batch))
        self._counters.received += 1

    def _publish(self, points: list[Point]) -> None:
        body = self._encoder.encode(points)
        batch = Batch("metrics", body, PROTOBUF, "", self._origin)
        self._intake.store(batch).add_done_callback(self._count_unstored)

    def _publish_lanes(self, lanes: Sequence[TitleLane]) -> None:
        body = encode_lanes(lanes, self._config.host_name)
        batch = Batch("traces", body, PROTOBUF, "", self._origin)
        self._intake.store(batch).add_done_callback(self._count_unstored)

    def _count_unstored(self, stored: "Future[int]") -> None:
        if stored.cancelled() or stored.exception() is not None:
            self._counters.unstored += 1

    async def _close(self) -> None:
        for listener in (self._http, self._grpc):
            if listener is not None:
                await listener.close()
        await asyncio.to_thread(self._close_threads)
        counters = self._counters
        _log.info(
            "stopped: %d received, %d forwarded, %d refused, %d left in the spool, %d dropped",
            counters.received,
            counters.forwarded,
            counters.rejected,
            self._spool.num_pending,
            self._spool.num_dropped,
        )

    def _close_threads(self) -> None:
        self._checker.shutdown()
        self._targets.close()
        self._sampler.close()
        self._intake.close()
        self._forwarder.close(_DRAIN_S)
        self._spool.close()

    def _describe_start(self) -> str:
        parts = [f"longpole agent {__version__} of {self._config.host_name}"]
        if self._http is not None:
            parts.append(f"OTLP/HTTP on {self._config.otlp_host}:{self._http.port}")
        if self._grpc is not None:
            parts.append(f"OTLP/gRPC on {self._config.otlp_host}:{self._grpc.port}")
        waiting = self._spool.num_pending
        if waiting:
            parts.append(f"{waiting} records from before")
        return f"{', '.join(parts)} -> {self._config.server}"


def _make_finder(pages: HttpPages) -> EngineFinder:
    tables, pods = read_system_tables(), find_pods(os.environ)
    sources: list[ListCandidates] = [lambda: find_engine_ports(tables)]
    if pods is not None:
        sources.append(pods)
    return EngineFinder(sources, pages, time.monotonic_ns)


def _write_ports(path: Path, http: HttpListener | None, grpc: GrpcListener | None) -> None:
    ports = {
        "http": None if http is None else http.port,
        "grpc": None if grpc is None else grpc.port,
    }
    try:
        write_atomically(path, json.dumps(ports) + "\n")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
