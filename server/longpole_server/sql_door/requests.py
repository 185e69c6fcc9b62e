"""Reading a request as ClickHouse's HTTP interface takes it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from longpole_server.errors import QueryRefusedError
from longpole_server.read.free_queries import DEFAULT_FORM, FreeQuery

_SYNTAX_ERROR = 62
_UNKNOWN_DATABASE = 81
_READONLY = 164
_NOT_IMPLEMENTED = 48
_BAD_ARGUMENTS = 36

# Who asks, about which the protocol knows more than one place.
CREDENTIAL_PARAMETERS = ("user", "password")
# Said about the transport; none changes what is read.
_TRANSPORT = frozenset(
    {
        "add_http_cors_header", "buffer_size", "cancel_http_readonly_queries_on_client_close",
        "client_protocol_version", "close_session", "connect_timeout", "default_format",
        "enable_http_compression", "http_headers_progress_interval_ms", "http_receive_timeout",
        "http_send_timeout", "http_wait_end_of_query", "http_zlib_compression_level", "log_comment",
        "log_queries", "query", "query_id", "quota_key", "receive_timeout", "role",
        "send_progress_in_http_headers", "send_timeout", "session_check", "session_id",
        "session_timeout", "wait_end_of_query",
        # What a query may use is decided here; a client that asks for less than that gets no more.
        "max_execution_time", "readonly",
    }
)  # fmt: skip
_ON = frozenset({"1", "true"})


@dataclass(frozen=True, slots=True)
class SqlRequest:
    """A request.

    Attributes:
        query: What is asked; its text is empty for a bare visit.
        query_id: The client's own, None without one.
        client_revision: The form of Native that the client says it reads.
        takes_gzip: Whether the answer may be compressed.
    """

    query: FreeQuery
    query_id: str | None
    client_revision: int
    takes_gzip: bool


def read_request(
    parameters: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    body: bytes,
    database: str,
) -> SqlRequest:
    """Return what a request asks.

    Args:
        parameters: Of the address.
        headers: Names in lower case.
        body: The statement, or the rest of one that begins in the address.
        database: The one whose tables may be read.

    Raises:
        QueryRefusedError: It wants something that this door does not do.
    """
    values = dict(parameters)
    _check_database(values.pop("database", None) or headers.get("x-clickhouse-database"), database)
    settings, bound = _split(values)
    max_rows = _read_number(settings.pop("limit", None), "limit")
    _check_settings(settings)
    return SqlRequest(
        query=FreeQuery(
            sql=_join(values.get("query", ""), body),
            parameters=bound,
            form=values.get("default_format") or headers.get("x-clickhouse-format") or DEFAULT_FORM,
            max_rows=max_rows or None,
        ),
        query_id=values.get("query_id"),
        client_revision=_read_number(values.get("client_protocol_version"), "version") or 0,
        takes_gzip=values.get("enable_http_compression") in _ON
        and "gzip" in headers.get("accept-encoding", ""),
    )


def _split(values: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what are settings of the database, and the values of placeholders."""
    settings: dict[str, str] = {}
    bound: dict[str, str] = {}
    for name, value in values.items():
        if name.startswith("param_"):
            bound[name.removeprefix("param_")] = value
        elif name not in _TRANSPORT and name not in CREDENTIAL_PARAMETERS:
            settings[name] = value
    return settings, bound


def _check_database(asked: str | None, database: str) -> None:
    if asked and asked not in {database, "default"}:
        raise QueryRefusedError(
            f"Database {asked} is not here.",
            _UNKNOWN_DATABASE,
            hint=f"The tables are in {database}.",
        )


def _check_settings(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if name in {"compress", "decompress"}:
            if value in _ON:
                raise QueryRefusedError(
                    "ClickHouse's own compression is not spoken here.",
                    _NOT_IMPLEMENTED,
                    hint="Ask for gzip by Accept-Encoding and enable_http_compression=1, or none.",
                )
        else:
            raise QueryRefusedError(f"Cannot modify '{name}' setting in readonly mode.", _READONLY)


def _join(start: str, body: bytes) -> str:
    try:
        rest = body.decode()
    except UnicodeDecodeError as error:
        raise QueryRefusedError(f"The query is no UTF-8: {error}.", _SYNTAX_ERROR) from error
    return f"{start}\n{rest}" if start and rest.strip() else start or rest


def _read_number(text: str | None, what: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise QueryRefusedError(f"{what} {text[:40]!r} is no number.", _BAD_ARGUMENTS)
    return int(text)
