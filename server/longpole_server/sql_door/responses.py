"""Answers and errors in the forms that ClickHouse's clients read."""

import gzip
import re
from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import Response

from longpole_server.errors import BusyError, QueryRefusedError, ServerError

AUTHENTICATION_FAILED = 516
_TOO_MANY_QUERIES = 202
_UNKNOWN = 1002
_NUMBER = re.compile(r"Code: (\d+)\. DB::Exception: ")
_STATUSES: Mapping[int, int] = MappingProxyType(
    {
        AUTHENTICATION_FAILED: 403,
        _TOO_MANY_QUERIES: 503,
        497: 403,  # access denied
        164: 403,  # read-only
        46: 404,  # unknown function
        47: 404,  # unknown identifier
        60: 404,  # unknown table
        81: 404,  # unknown database
        62: 400,  # syntax
        36: 400,  # bad arguments
        53: 400,  # types do not match
        43: 400,  # illegal type of argument
        42: 400,  # number of arguments
        73: 400,  # unknown format
        456: 400,  # placeholder without a value
        457: 400,  # placeholder with a value of another type
        48: 501,  # not implemented
    }
)
_TEXT = "text/plain; charset=UTF-8"
_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "JSON": "application/json; charset=UTF-8",
        "JSONCompact": "application/json; charset=UTF-8",
        "JSONEachRow": "application/x-ndjson; charset=UTF-8",
        "JSONCompactEachRow": "application/x-ndjson; charset=UTF-8",
        "CSV": "text/csv; charset=UTF-8; header=absent",
        "CSVWithNames": "text/csv; charset=UTF-8; header=present",
        "XML": "application/xml; charset=UTF-8",
        "TabSeparated": "text/tab-separated-values; charset=UTF-8",
        "TSV": "text/tab-separated-values; charset=UTF-8",
        "TabSeparatedWithNames": "text/tab-separated-values; charset=UTF-8",
    }
)
_BINARY = ("Native", "RowBinary", "Arrow", "Parquet", "RawBLOB")
_MIN_GZIP_BYTES = 1024


def make_answer(
    body: bytes, form: str, timezone: str, query_id: str | None, takes_gzip: bool
) -> Response:
    """Return an answer with the headers that clients look at."""
    headers = {"X-ClickHouse-Format": form, "X-ClickHouse-Timezone": timezone}
    if query_id:
        headers["X-ClickHouse-Query-Id"] = _one_line(query_id)
    if takes_gzip and len(body) >= _MIN_GZIP_BYTES:
        body = gzip.compress(body, 1)
        headers["Content-Encoding"] = "gzip"
    default = "application/octet-stream" if form.startswith(_BINARY) else _TEXT
    return Response(body, media_type=_TYPES.get(form, default), headers=headers)


def make_failure(error: ServerError) -> Response:
    """Return an error as ClickHouse would."""
    number, message = _describe(error)
    text = f"{message} {error.hint}".strip() if error.hint else message
    status = _STATUSES.get(number, 500)
    headers = {"X-ClickHouse-Exception-Code": str(number)}
    if isinstance(error, BusyError):
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    body = f"Code: {number}. DB::Exception: {text}\n"
    return Response(body.encode("utf-8", "replace"), status, headers, _TEXT)


def _describe(error: ServerError) -> tuple[int, str]:
    if isinstance(error, QueryRefusedError):
        return error.number, error.message
    if isinstance(error, BusyError):
        return _TOO_MANY_QUERIES, error.message
    match = _NUMBER.search(error.message)
    if match is None:
        return _UNKNOWN, error.message
    return int(match[1]), error.message[match.end() :]


def _one_line(text: str) -> str:
    return "".join(char for char in text if char.isascii() and char.isprintable())[:200]
