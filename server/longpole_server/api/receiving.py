"""Bodies that are too large for memory."""

import asyncio
from pathlib import Path

from fastapi import Request

from longpole_server.errors import BadRequestError, TooLargeError


async def receive_body(request: Request, file: Path, max_bytes: int) -> None:
    """Write the body of a request into a file.

    Raises:
        TooLargeError: It is larger than `max_bytes`.
        BadRequestError: There is none.
    """
    num_bytes = 0
    with file.open("wb") as stream:
        async for chunk in request.stream():
            num_bytes += len(chunk)
            if num_bytes > max_bytes:
                raise TooLargeError(f"the body is larger than {max_bytes:,} bytes")
            await asyncio.to_thread(stream.write, chunk)
    if not num_bytes:
        raise BadRequestError("the request has no body", hint="send the file as the raw body")
