"""Writes the reference of the HTTP API as Markdown, from the routes themselves.

python -m longpole_server.api.reference > docs/api.md
"""

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from longpole_server.api.application import PREFIX, ApiParts, create_api
from longpole_server.api.asker import create_asker_router

_INTRODUCTION = """\
# HTTP API

Everything that the dashboard shows, and some more. A running server describes itself, with the
type of every field, at `/api/openapi.json`. This page is made from its routes by `python -m
longpole_server.api.reference`; a test keeps it up to date.

- **Access.** `Authorization: Bearer TOKEN` wherever the server has a token
  ([security](security.md)); `/api/v1/health` and `/api/v1/ready` are open.
- **Lists** are `{"<plural>": [...], "next": cursor or null}`; `?cursor=` and `?limit=` turn the
  page.
- **Units** stand in names: `_ns` int64 UTC, `_s` seconds, `_bytes`, `_ratio` 0 to 1. What is
  not reported is `null`: never left out, never 0.
- **Run ids** may contain `/` and are percent-encoded: `team%2Fqwen3-8b`.
- **Errors** are `{"error": {"code", "message", "hint"}}` with the right status; unknown paths
  under `/api` and `/v1` are 404.
- **Growing.** Fields are added, none is taken away or renamed under `/api/v1`.

```bash
curl -s -H "Authorization: Bearer $LONGPOLE_TOKEN" http://127.0.0.1:8470/api/v1/runs
```
"""
_OTLP = """\
## Pages

| route | answer |
|---|---|
| `GET /report` `?run=&zone=` | A run to keep: one HTML file, no scripts (`longpole report`). |
| `GET /login` `?next=` | The form to sign in. |
| `POST /login` `?next=` | Sign in by a form (`name`, `password`); sets the session's cookie. |
| `POST /logout` | End the session of this browser. |
| `GET /api/openapi.json` | The description of this API. |

## Documents

`longpole.diagnosis/1` is what `/runs/{run}/diagnosis` and `longpole diagnose --json` answer:
verdict, evidence, ledger, actions. `longpole.comparison/1` is what `/runs/{run}/compare` and
`longpole diagnose --against ... --json` answer: what the two windows are, and the parts that
multiply to the whole. Both name themselves in `schema`; fields are added, none is taken away.

## OTLP

`POST /v1/traces`, `POST /v1/metrics` and `POST /v1/logs` take protobuf and JSON, gzip or plain, on
the main port and on 4318; gRPC is on 4317. A sender that repeats a batch under the same
`longpole-batch-id` header is answered as if it were new, and stored once. Names:
[vocabulary](vocabulary.md).

## SQL

`GET /clickhouse/` and `POST /clickhouse/` speak ClickHouse's HTTP protocol, read-only: [your own
SQL](clickhouse.md#your-own-sql). `GET /clickhouse/ping` answers `Ok.` to whoever asks.
"""


def write_reference() -> str:
    """Return the page."""
    tables = "\n".join(
        f"## {tag}\n\n| route | answer |\n|---|---|\n{rows}" for tag, rows in _list_tables()
    )
    return f"{_INTRODUCTION}\n{tables}\n{_OTLP}"


def _list_tables() -> Iterator[tuple[str, str]]:
    rows: dict[str, list[str]] = {}
    for path, methods in _describe_api()["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["other"])[0]
            text = str(operation.get("description") or operation.get("summary") or "")
            first = text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            rows.setdefault(tag, []).append(
                f"| `{method.upper()} {path}`{_query(operation)} | {first} |\n"
            )
    for tag in sorted(rows):
        yield tag.capitalize(), "".join(rows[tag])


def _query(operation: dict[str, Any]) -> str:
    names = [
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    ]
    return "" if not names else " `?" + "=&".join(names) + "=`"


def _describe_api() -> dict[str, Any]:
    """Return the description of an API behind which there is nothing."""
    nothing = cast("Any", SimpleNamespace(alerts=None))
    api = create_api(
        ApiParts(
            service=nothing,
            importer=nothing,
            otlp_routes=(),
            check_ready=dict[str, bool],
            collect_metrics=tuple[()],
            door=None,
            max_import_bytes=1,
            storage=nothing,
            transfer=nothing,
            news=nothing,
        )
    )
    # Where nobody is asked who they are it is left out, and there is nobody here.
    api.include_router(create_asker_router(nothing), prefix=PREFIX)
    return api.openapi()


if __name__ == "__main__":
    sys.stdout.write(write_reference())
