"""The real receivers on real ports, over a real journal, with a writer that records."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from longpole_server.ingest.admission import Admission
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.http import create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.model.principal import EVERYBODY
from longpole_server.model.records import Records
from support.otlp_pipeline import RecordingWriter, running_pipeline

_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    """Where the receivers listen, and what they took in."""

    http_port: int
    grpc_port: int
    pipeline: Pipeline
    writer: RecordingWriter

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def grpc_target(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def read_records(self) -> Records:
        """Everything accepted so far."""
        assert self.pipeline.drain(_DEADLINE_S)
        return self.writer.records


@contextmanager
def running_server(
    directory: Path,
    limits: OtlpLimits | None = None,
    authorize: Callable[[str | None], bool] | None = None,
) -> Generator[RunningServer]:
    """Both receivers in one event loop on a thread of its own."""
    limits = limits or OtlpLimits()
    admission = (
        Admission(lambda header: EVERYBODY if authorize(header) else None) if authorize else None
    )
    writer = RecordingWriter()
    with running_pipeline(directory, writer, Normalizer()) as pipeline:
        app = Starlette(routes=create_otlp_routes(pipeline, limits, admission))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
        ports: list[int] = []
        started, stopping = threading.Event(), threading.Event()

        async def serve() -> None:
            over_grpc = await start_otlp_grpc(pipeline, "127.0.0.1", 0, limits, admission)
            over_http = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            ports.extend((server.servers[0].sockets[0].getsockname()[1], over_grpc.port))
            started.set()
            while not stopping.is_set():
                await asyncio.sleep(0.02)
            server.should_exit = True
            await over_http
            await over_grpc.stop(1.0)

        thread = threading.Thread(target=lambda: asyncio.run(serve()), name="otlp-server")
        thread.start()
        try:
            assert started.wait(_DEADLINE_S)
            yield RunningServer(ports[0], ports[1], pipeline, writer)
        finally:
            stopping.set()
            thread.join()
