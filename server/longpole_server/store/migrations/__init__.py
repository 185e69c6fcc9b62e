"""Numbered changes of the schema: each `NNNN_name.sql` beside this file, applied once, in order.

How to write one: statements end with `;` at the end of a line, and each can be repeated (`IF NOT
EXISTS`), since a crash may come between a statement and the record of it. Names of engines are
template variables (`Dialect`), so that the same file serves one process and a cluster. A file
that was released is never edited: its checksum is recorded in `schema_migrations`.
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template

import pyarrow as pa

from longpole_server.errors import StoreError
from longpole_server.store.client import Client

_log = logging.getLogger(__name__)
_FILE_NAME = re.compile(r"(\d{4})_(\w+)\.sql")
_RECORD_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations $on_cluster (
    number UInt32,
    name String,
    checksum String,
    applied_at DateTime('UTC') DEFAULT now('UTC')
) ENGINE = ${record_engine} ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between one node and a cluster; the fields are the template's variables.

    Attributes:
        replicated: Prefix of every engine's name.
        on_cluster: Clause of every statement.
        deduplication_window: Setting that bounds how many insert tokens a table remembers.
        record_engine: Engine of the table of applied migrations.
    """

    replicated: str = ""
    on_cluster: str = ""
    deduplication_window: str = "non_replicated_deduplication_window"
    record_engine: str = "ReplacingMergeTree"

    def render(self, sql: str) -> str:
        """Fill in the variables.

        Raises:
            KeyError: The text names a variable that does not exist.
        """
        return Template(sql).substitute(
            replicated=self.replicated,
            on_cluster=self.on_cluster,
            deduplication_window=self.deduplication_window,
            record_engine=self.record_engine,
        )


ONE_NODE = Dialect()


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. `sql` is its text with the variables still in it."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def render_statements(self, dialect: Dialect) -> tuple[str, ...]:
        """Return the statements, without comments, ready to run."""
        lines = (line for line in self.sql.splitlines() if not line.lstrip().startswith("--"))
        text = dialect.render("\n".join(lines))
        return tuple(part.strip() for part in re.split(r";\s*(?:\n|$)", text) if part.strip())


def render_record_table(dialect: Dialect) -> str:
    """Return the statement that makes the table of applied migrations."""
    return dialect.render(_RECORD_TABLE).strip()


def load_migrations() -> tuple[Migration, ...]:
    """Return the migrations this program brings, in order."""
    found: list[Migration] = []
    for file in resources.files(__name__).iterdir():
        match = _FILE_NAME.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda migration: migration.number))


def list_pending(
    client: Client, known: Sequence[Migration] | None = None, dialect: Dialect = ONE_NODE
) -> tuple[Migration, ...]:
    """Return the migrations that the database lacks, in order.

    Args:
        client: May write: the table of applied migrations is made when missing.
        known: What this program brings; None loads it.
        dialect: Where the database runs.

    Raises:
        StoreError: The database was written by a newer program, or an applied one changed.
    """
    client.command(render_record_table(dialect))
    return find_pending(client, known)


def find_pending(client: Client, known: Sequence[Migration] | None = None) -> tuple[Migration, ...]:
    """Return the migrations that a database lacks which has the table of applied ones.

    Args:
        client: Reads; nothing is made.
        known: What this program brings; None loads it.

    Raises:
        StoreError: As `list_pending`, or there is no such table.
    """
    known = load_migrations() if known is None else known
    applied = {
        row["number"]: row
        for row in client.query("SELECT number, name, checksum FROM schema_migrations").to_pylist()
    }
    newer = sorted(applied.keys() - {migration.number for migration in known})
    if newer:
        raise StoreError(
            "The store was written by a newer Longpole: it has migration "
            f"{newer[-1]:04}_{applied[newer[-1]]['name']}, which this one does not know.",
            hint="Upgrade Longpole, or use another data directory.",
        )
    for migration in known:
        row = applied.get(migration.number)
        if row is not None and row["checksum"] != migration.checksum:
            raise StoreError(
                f"Migration {migration.number:04}_{migration.name} differs from the one that "
                "made this store.",
                hint="Use the release that made the store, or another data directory.",
            )
    return tuple(migration for migration in known if migration.number not in applied)


def apply_pending(
    client: Client, known: Sequence[Migration] | None = None, dialect: Dialect = ONE_NODE
) -> tuple[Migration, ...]:
    """Apply what is missing and return it.

    Raises:
        StoreError: As `list_pending`, or a statement failed; applied ones stay applied.
    """
    pending = list_pending(client, known, dialect)
    for migration in pending:
        _log.info("migration %04d_%s", migration.number, migration.name)
        for statement in migration.render_statements(dialect):
            client.command(statement)
        record = pa.table(
            {
                "number": pa.array([migration.number], pa.uint32()),
                "name": [migration.name],
                "checksum": [migration.checksum],
            }
        )
        client.insert("schema_migrations", record, f"migration/{migration.number}")
    return pending
