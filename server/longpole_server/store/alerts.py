"""Writes alerts: events, silences, users' rules, messages and deliveries."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import orjson
import pyarrow as pa

from longpole_server.model.alert import (
    AlertEvent,
    AlertEvidence,
    AlertMessage,
    Delivery,
    Silence,
    UserRule,
)
from longpole_server.store.client import Client
from longpole_server.store.columns import FLAG, FLOAT, INTEGER, TEXT, TEXTS, TIME, make_array

# Columns that are no text; times are known by their names.
_KINDS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "started_step": INTEGER,
        "step": INTEGER,
        "count": INTEGER,
        "attempt": INTEGER,
        "value": FLOAT,
        "threshold": FLOAT,
        "baseline": FLOAT,
        "notify": FLAG,
        "event_ids": TEXTS,
        "channels": TEXTS,
    }
)


class AlertWriter:
    """Writes alerts over a connection of its own. Thread-safe.

    Every method raises `StoreError` when the database refused or failed; the caller may call
    again.

    Args:
        client: May write; closed with this.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def write_events(self, events: Sequence[AlertEvent]) -> None:
        """Append events; the same ones again change nothing."""
        if events:
            rows = make_rows(AlertEvent, events, evidence=_dump_evidence)
            digest = hashlib.sha256("".join(event.event_id for event in events).encode())
            self._client.insert("alert_events", rows, digest.hexdigest())

    def write_silence(self, silence: Silence, version: int) -> None:
        """Make or change a silence. `version` grows with every change (UTC nanoseconds)."""
        self._replace("alert_silences", make_rows(Silence, [silence]), version)

    def write_rule(self, rule_id: str, rule: UserRule | None, version: int) -> None:
        """Make or change a user's rule, None deletes it. `version` as for silences."""
        document = orjson.dumps(asdict(rule)).decode() if rule is not None else ""
        rows = pa.table({"rule_id": [rule_id], "document": [document]})
        self._replace("alert_rules", rows, version)

    def write_message(self, message: AlertMessage) -> None:
        """Freeze what is told together; the same again changes nothing."""
        rows = make_rows(AlertMessage, [message])
        self._client.insert("alert_messages", rows, message.message_id)

    def write_delivery(self, delivery: Delivery) -> None:
        """Append an attempt; the same again changes nothing."""
        token = f"{delivery.message_id}/{delivery.channel}/{delivery.attempt}"
        self._client.insert("alert_deliveries", make_rows(Delivery, [delivery]), token)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _replace(self, table: str, rows: pa.Table, version: int) -> None:
        versioned = rows.append_column("version", pa.array([version], pa.uint64()))
        self._client.insert(table, versioned, os.urandom(16).hex())


def make_rows(kind: type[Any], items: Sequence[object], **dumps: Callable[[Any], str]) -> pa.Table:
    """Return objects of a dataclass as rows, one column for each field.

    Args:
        kind: The dataclass.
        items: Its objects.
        dumps: By field, what turns a value into text.
    """
    columns: dict[str, Any] = {}
    for field in fields(kind):
        values = list(map(attrgetter(field.name), items))
        dump = dumps.get(field.name)
        if dump is not None:
            values = [dump(value) for value in values]
        columns[field.name] = make_array(values, _kind_of(field.name))
    return pa.table(columns)


def read_event(row: Mapping[str, Any]) -> AlertEvent:
    """Return the event of a row of `alert_events`; times are nanoseconds."""
    evidence = tuple(AlertEvidence(**item) for item in json.loads(row["evidence"]))
    names = [field.name for field in fields(AlertEvent) if field.name != "evidence"]
    return AlertEvent(**{name: row[name] for name in names}, evidence=evidence)


def read_rule(document: str) -> UserRule:
    """Return the user's rule of a row of `alert_rules`."""
    return UserRule(**orjson.loads(document))


def _dump_evidence(evidence: Sequence[AlertEvidence]) -> str:
    # Losses that are not finite are what an alert may be about: JSON proper cannot say that.
    return json.dumps([asdict(item) for item in evidence])


def _kind_of(name: str) -> pa.DataType:
    return TIME if name.endswith("_ns") else _KINDS.get(name, TEXT)
