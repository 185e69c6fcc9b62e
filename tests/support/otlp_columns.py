"""The records of trace requests, read one by one and read as columns, in the same shape."""

from collections.abc import Sequence
from typing import Any

from longpole_server.ingest.normalize import Normalizer
from longpole_server.ingest.normalize.free_text import FreeText
from longpole_server.model.records import Records
from longpole_server.store.tables import TABLES

Requests = Sequence[tuple[bytes, int]]


def read_singly(signal: Any, requests: Requests, *, keep_text: bool = False) -> Records:
    records = Records()
    normalizer = Normalizer(free_text=FreeText(keep=keep_text))
    for body, received_ns in requests:
        normalizer.normalize(signal, body, received_ns, records)
    return records


def read_columns(signal: Any, requests: Requests, *, keep_text: bool = False) -> Records | None:
    """None when the requests are not of the form that columns are made of."""
    records = Records()
    normalizer = Normalizer(free_text=FreeText(keep=keep_text), min_column_bytes=0)
    return records if normalizer.normalize_many(signal, requests, records) else None


def list_rows(records: Records) -> dict[str, list[dict[str, Any]]]:
    """Rows by table, whether they came as objects or as columns, those alike in one order."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for kind, table in TABLES.items():
        parts = [table.make_rows(getattr(records, kind))]
        parts += [block.rows for block in records.blocks if block.kind == kind]
        rows[kind] = sorted(
            (row for part in parts for row in part.to_pylist()), key=lambda row: repr(row)
        )
    return rows
