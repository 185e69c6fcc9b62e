"""The server's path from the receivers to the store as a program, without pages and alerts.

Usage: python -m support.fault_server DATA_DIR PORTS_FILE JOURNAL_MAX_BYTES. It starts several times
faster than `longpole server`, so that it can be killed often. Parts, threads and order are those of
`longpole_server.app`.
"""

import asyncio
import json
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from longpole.patience import PatientHttpProtocol
from longpole.spool import Spool
from longpole_server.ingest.grpc import start_otlp_grpc
from longpole_server.ingest.http import create_otlp_routes
from longpole_server.ingest.limits import OtlpLimits
from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.pipeline import Pipeline
from longpole_server.read import open_reader
from longpole_server.service import ChangeFeed
from longpole_server.service.closing import StepCloser
from longpole_server.service.facts import FactsReader
from longpole_server.service.revisions import Revisions
from longpole_server.service.serial_writer import SerialWriter
from longpole_server.store import StoreConfig, open_store

_DRAIN_S = 60.0


class _HttpServer(uvicorn.Server):
    """Leaves signals to the program."""

    def install_signal_handlers(self) -> None:
        pass


def main() -> None:
    data_dir, ports_file, max_bytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    data_dir.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        store = open_store(StoreConfig(directory=data_dir / "store"))
        opened.callback(store.close)
        reader = open_reader(store, 2)
        opened.callback(reader.close)
        spool = Spool(data_dir / "journal", max_bytes=max_bytes, drop_oldest=False)
        opened.callback(spool.close)
        writer = SerialWriter(store.writer)
        revisions = Revisions()
        closer = StepCloser(reader, writer, ChangeFeed(), revisions, FactsReader(reader))
        pipeline = Pipeline(
            spool,
            Normalizer([]),
            writer.write,
            closer.on_written,
            state_dir=data_dir / "journal-state",
            bulk_interval_s=0.2,
        )
        opened.callback(closer.close)
        opened.callback(pipeline.close)
        closer.start()
        pipeline.start()
        asyncio.run(_serve(pipeline, ports_file))
        if not pipeline.drain(_DRAIN_S):
            sys.exit("not written in time")


async def _serve(pipeline: Pipeline, ports_file: Path) -> None:
    limits = OtlpLimits(max_request_bytes=1 << 20)

    def tell(request: Request) -> Response:
        stats = pipeline.stats
        lines = (
            f"longpole_ingest_pending_requests {stats.num_pending}",
            f"longpole_ingest_lost_requests_total {stats.num_lost_requests}",
        )
        return PlainTextResponse("\n".join(lines))

    app = Starlette(routes=[*create_otlp_routes(pipeline, limits), Route("/metrics", tell)])
    server = _HttpServer(
        uvicorn.Config(
            app,
            host="127.0.0.1",
            port=0,
            log_level="error",
            lifespan="off",
            http=PatientHttpProtocol,
        )
    )
    over_grpc = await start_otlp_grpc(pipeline, "127.0.0.1", 0, limits)
    stop = asyncio.Event()
    over_http = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    ports = {"http": server.servers[0].sockets[0].getsockname()[1], "grpc": over_grpc.port}
    partial = ports_file.with_suffix(".partial")
    partial.write_text(json.dumps(ports))
    partial.replace(ports_file)
    await stop.wait()
    server.should_exit = True
    await over_http
    await over_grpc.stop(1.0)


if __name__ == "__main__":
    main()
