"""What the store holds, for the API, the command line and the dashboards."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from longpole_server.model.storage import StorageReport, TableSize
from longpole_server.read.pool import ClientPool
from longpole_server.read.storage import list_stored_tables
from longpole_server.store.location import StoreConfig


@dataclass(frozen=True, slots=True)
class Storage:
    """Reports on a store. Thread-safe.

    Attributes:
        pool: Connections; their owner closes them.
        config: Where the store is.
        retention: Seconds by table that rows are kept; others stay.
    """

    pool: ClientPool
    config: StoreConfig
    retention: Mapping[str, int]

    def report(self) -> StorageReport:
        """Return the sizes of all tables.

        Raises:
            StoreError: The database failed.
        """
        directory = self.config.directory
        return StorageReport(
            place=self.config.place,
            free_bytes=shutil.disk_usage(directory).free if directory is not None else None,
            tables=tuple(
                TableSize(
                    table.name,
                    table.rows,
                    table.bytes_on_disk,
                    table.oldest_ns,
                    table.newest_ns,
                    self.retention.get(table.name),
                )
                for table in list_stored_tables(self.pool, self.config)
            ),
        )
