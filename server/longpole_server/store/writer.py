"""Writes records and derived steps into the store: one writer, idempotent by token."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from longpole_server.model.discovery import ScrapeTarget
from longpole_server.model.gpu import RunGpu
from longpole_server.model.records import Records, RowBlock
from longpole_server.model.step import Step
from longpole_server.store.activity import Activity, make_activity_rows
from longpole_server.store.known_samples import KnownSamples
from longpole_server.store.steps import make_step_rows
from longpole_server.store.tables import (
    GPU_FEED,
    GPU_FEED_COLUMNS,
    RUN_GPUS,
    SCRAPE_TARGETS,
    TABLES,
    Table,
)


class Inserter(Protocol):
    """What the writer needs of a connection."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Insert rows once for each token and table, however often it is called."""
        ...


class Writer:
    """The one writer of a store. Not thread-safe: its owner calls it from one thread at a time.

    Args:
        client: A connection that may write; its owner closes it.
        known: What is stored already, left out by it; None inserts everything.
    """

    def __init__(self, client: Inserter, known: KnownSamples | None = None) -> None:
        self._client = client
        self._known = known
        self._activity = Activity()

    @property
    def num_left_out(self) -> int:
        """Samples that were stored already when they came, under another batch id or none."""
        return self._known.num_left_out if self._known is not None else 0

    def write(self, records: Records, token: str) -> None:
        """Insert a batch. The same token again changes nothing, whatever the batch holds.

        After a failure some tables hold their part of the batch and others do not: the same call
        again completes them. What is stored already under another token is not stored again.

        Raises:
            StoreError: The database refused or failed; the caller retries with the same token.
        """
        for field, table in TABLES.items():
            rows = _make_rows(table, getattr(records, field), records.blocks, field)
            if rows is not None:
                self._write_table(table.name, rows, token)
        news = self._activity.find_news(records)
        self._insert("run_activity", make_activity_rows(news), token)
        self._activity.remember(news)

    def write_steps(self, steps: Sequence[tuple[Step, str]], version: int) -> None:
        """Replace derived steps. Each comes with its diagnosis as JSON ("" for none).

        Args:
            steps: The steps with their `longpole.diagnosis/1` document.
            version: Grows with every call for the same step (UTC nanoseconds of the decision).

        Raises:
            StoreError: The database refused or failed; the caller may call again.
        """
        self._insert("steps", make_step_rows(steps, version), _make_token())

    def write_run_gpus(self, run_gpus: Sequence[RunGpu]) -> None:
        """Replace which run holds which GPU (key: run, attempt, gpu, since).

        Raises:
            StoreError: The database refused or failed; the caller may call again.
        """
        self._insert(RUN_GPUS.name, RUN_GPUS.make_rows(run_gpus), _make_token())

    def write_scrape_targets(self, targets: Sequence[ScrapeTarget]) -> None:
        """Replace registered Prometheus pages (key: job, target, host, sender).

        Raises:
            StoreError: The database refused or failed; the caller may call again.
        """
        self._insert(SCRAPE_TARGETS.name, SCRAPE_TARGETS.make_rows(targets), _make_token())

    def _write_table(self, table: str, rows: pa.Table, token: str) -> None:
        if self._known is not None:
            rows = self._known.leave_out(table, rows)
        insert_samples(self._client, table, rows, token)
        if self._known is not None:
            self._known.remember(table, rows)

    def _insert(self, table: str, rows: pa.Table, token: str) -> None:
        if rows.num_rows:
            self._client.insert(table, rows, f"{token}/{table}")


def insert_samples(client: Inserter, table: str, rows: pa.Table, token: str) -> None:
    """Insert rows of a table, rolled up first where it has rollups.

    A sample that the raw table holds has been counted: a retry needs no other record of it.
    """
    if table == "gpu_samples" and rows.num_rows:
        client.insert(GPU_FEED, rows.select(GPU_FEED_COLUMNS), f"{token}/{GPU_FEED}")
    if rows.num_rows:
        client.insert(table, rows, f"{token}/{table}")


def _make_rows(
    table: Table, batch: Sequence[object], blocks: Sequence[RowBlock], field: str
) -> pa.Table | None:
    parts = [table.make_rows(batch)] if batch else []
    parts += [block.rows for block in blocks if block.kind == field]
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _make_token() -> str:
    # Content that came before may come again (A, B, A): without a token of its own the database
    # would take the third insert for a repetition of the first.
    return os.urandom(16).hex()
