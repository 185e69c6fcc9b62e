"""Route of what the store holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.responses import Response

from longpole_server.api.responses import JsonResponse
from longpole_server.model.storage import StorageReport
from longpole_server.service.storage import Storage


@dataclass(frozen=True, slots=True)
class TableDocument:
    """A table; `keep_s` is null where rows stay."""

    table: str
    rows: int
    bytes_on_disk: int
    bytes_per_row: float | None
    oldest_ns: int | None
    newest_ns: int | None
    keep_s: int | None


@dataclass(frozen=True, slots=True)
class StorageDocument:
    """All tables, the largest first."""

    place: str
    free_bytes: int | None
    bytes_on_disk: int
    tables: Sequence[TableDocument]
    next: str | None


def create_storage_router(storage: Storage) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["server"])

    @router.get("/storage", response_model=StorageDocument)
    def get_storage() -> Response:
        """Rows and bytes of every table, and how long rows are kept."""
        return JsonResponse(describe_storage(storage.report()))

    return router


def describe_storage(report: StorageReport) -> StorageDocument:
    """Return a report as a document."""
    return StorageDocument(
        place=report.place,
        free_bytes=report.free_bytes,
        bytes_on_disk=sum(table.bytes_on_disk for table in report.tables),
        tables=[
            TableDocument(
                table.name,
                table.rows,
                table.bytes_on_disk,
                table.bytes_per_row,
                table.oldest_ns,
                table.newest_ns,
                table.keep_s,
            )
            for table in report.tables
        ],
        next=None,
    )
