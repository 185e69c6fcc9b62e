"""Routes of whole runs: out as Parquet files, in from them."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from longpole import __version__
from longpole_server.api.receiving import receive_body
from longpole_server.api.responses import JsonResponse
from longpole_server.read.run_rows import Slice
from longpole_server.service import Service
from longpole_server.service.chrome_trace import trace_step
from longpole_server.service.transferring import RunTransfer

EXPORT_FORMAT = "longpole.run/1"
_PARQUET = "application/vnd.apache.parquet"
_RAW_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {_PARQUET: {"schema": {"type": "string", "format": "binary"}}},
    }
}

Run = Annotated[str, Query(min_length=1, description="run id")]
TableName = Annotated[str, Query(min_length=1, description="table of an export")]
Bound = Annotated[int, Query(ge=-(1 << 63), le=(1 << 63) - 1)]


@dataclass(frozen=True, slots=True)
class SliceDocument:
    """Rows of a table between two times, the second exclusive: one file."""

    table: str
    from_ns: int
    to_ns: int
    rows: int


@dataclass(frozen=True, slots=True)
class ExportDocument:
    """What a run is made of, in the order in which it is put back."""

    format: str
    longpole: str
    run_id: str
    created_ns: int
    slices: Sequence[SliceDocument]


@dataclass(frozen=True, slots=True)
class ArrivalDocument:
    """How many rows of a file were not here yet."""

    run_id: str
    table: str
    new_rows: int


def create_transfer_router(transfer: RunTransfer, service: Service, max_bytes: int) -> APIRouter:
    """Return the routes.

    Args:
        transfer: Reads and stores.
        service: Tells of steps, and whether the caller may see a run.
        max_bytes: Largest file taken.
    """
    router = APIRouter(tags=["runs"])

    @router.get("/export", response_model=ExportDocument)
    def describe_export(run: Run) -> Response:
        """The files that a run consists of."""
        service.get_run(run)
        slices = [
            SliceDocument(piece.table, piece.from_ns, piece.to_ns, piece.rows)
            for piece in transfer.list_slices(run)
        ]
        return JsonResponse(ExportDocument(EXPORT_FORMAT, __version__, run, time.time_ns(), slices))

    @router.get("/export/chrome-trace", response_class=Response)
    def export_trace(run: Run, step: Bound) -> Response:
        """A step as a trace in Chrome's format: stages, samples, GPU counters."""
        return JsonResponse(trace_step(service, run, step))

    @router.get("/export/rows", response_class=Response)
    def export_rows(run: Run, table: TableName, from_ns: Bound, to_ns: Bound) -> Response:
        """One of these files, as Parquet."""
        service.get_run(run)
        body = transfer.read_slice(run, Slice(table, from_ns, to_ns, 0))
        return Response(body, media_type=_PARQUET)

    @router.post("/import/rows", response_model=ArrivalDocument, openapi_extra=_RAW_BODY)
    async def import_rows(request: Request, run: Run, table: TableName) -> Response:
        """Store such a file under a run id; rows that are here already are left as they are."""
        with tempfile.TemporaryDirectory(prefix="longpole-import-") as directory:
            file = Path(directory) / "rows.parquet"
            await receive_body(request, file, max_bytes)
            num_new = await asyncio.to_thread(transfer.take, run, table, file)
        return JsonResponse(ArrivalDocument(run, table, num_new))

    return router
