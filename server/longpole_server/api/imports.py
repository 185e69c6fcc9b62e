"""`POST /import`: a log file becomes a run."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from longpole_server.api.documents import ErrorDocument, ImportDocument
from longpole_server.api.receiving import receive_body
from longpole_server.api.responses import JsonResponse
from longpole_server.service.importing import LogImporter

# A log of ordinary length is derived long before; the answer says when one is not.
_DERIVE_TIMEOUT_S = 20.0
_RAW_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def create_import_router(importer: LogImporter, max_bytes: int) -> APIRouter:
    """Return the import route.

    Args:
        importer: Puts logs into the store.
        max_bytes: Largest log taken.
    """
    router = APIRouter(tags=["runs"])

    @router.post(
        "/import",
        response_model=ImportDocument,
        openapi_extra=_RAW_BODY,
        responses={422: {"model": ErrorDocument, "description": "The body is no log."}},
    )
    async def import_log(
        request: Request,
        name: Annotated[str, Query(min_length=1, max_length=255, description="file name")] = "log",
        run: Annotated[str | None, Query(min_length=1, description="run id")] = None,
        modified_ns: Annotated[
            int | None, Query(ge=0, description="when the file was last written")
        ] = None,
    ) -> Response:
        """Put a log into the store as a run; the same content again changes nothing."""
        with tempfile.TemporaryDirectory(prefix="longpole-import-") as directory:
            file = Path(directory) / "log"
            await receive_body(request, file, max_bytes)
            document = await asyncio.to_thread(
                _import, importer, file, name, run, modified_ns or time.time_ns()
            )
        return JsonResponse(document)

    return router


def _import(
    importer: LogImporter, file: Path, name: str, run: str | None, modified_ns: int
) -> ImportDocument:
    imported = importer.import_log(file, Path(name).name, run, modified_ns)
    is_derived = importer.settle(_DERIVE_TIMEOUT_S)
    return ImportDocument(imported.run_id, imported.batch_id, len(imported.steps), is_derived)
