"""Where the store is: a directory of this machine, a ClickHouse server, or a cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from longpole_server.config import Config
from longpole_server.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLUSTER = re.compile(r"[A-Za-z0-9_.{}-]+")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """How an `https` address is trusted, and how this client proves who it is.

    Attributes:
        verify: Whether the server's certificate is checked.
        ca_file: Certificates to check it with, None for the system's.
        certificate_file: This client's own certificate, None without one.
        key_file: Its key, when it does not stand in the same file.
    """

    verify: bool = True
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where the store is. Exactly one of `directory` and `url` is given.

    Attributes:
        directory: Embedded store: created when missing, one process at a time.
        url: External ClickHouse, e.g. `https://host:8443`.
        user: Of the external one; None for the one in the address, or the default.
        password: Of that user.
        database: Created when missing.
        cluster: Name of a cluster that the external ClickHouse knows: tables are replicated on its
            nodes and spread over its shards. None for a single node.
        max_memory_bytes: Bound on what the embedded engine may use.
        start_timeout_s: How long an external one is waited for when the store is opened.
        engine_options: More options of the embedded engine.

    Raises:
        ConfigError: The fields contradict each other.
    """

    directory: Path | None = None
    url: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    database: str = "longpole"
    cluster: str | None = None
    tls: TlsConfig = TlsConfig()
    max_memory_bytes: int = 3 << 30
    start_timeout_s: float = 60.0
    engine_options: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if (self.directory is None) == (self.url is None):
            raise ConfigError(
                "The store needs either a data directory or a ClickHouse address.",
                hint="Give one of them, not both.",
            )
        if not _NAME.fullmatch(self.database):
            raise ConfigError(f"{self.database!r} is no name for a database.")
        if self.cluster is not None and not _CLUSTER.fullmatch(self.cluster):
            raise ConfigError(f"{self.cluster!r} is no name of a cluster.")
        if self.url is not None:
            _check_url(self.url, self.tls)

    @property
    def place(self) -> str:
        """For people: the directory or the address, without what is secret in it."""
        if self.url is None:
            return str(self.directory)
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    @property
    def tables_database(self) -> str:
        """Where the tables' rows are: on a cluster beside the database that spreads queries."""
        return self.database if self.cluster is None else f"{self.database}_local"


def locate_store(config: Config) -> StoreConfig:
    """Return where the server's configuration puts the store.

    Raises:
        ConfigError: The settings contradict each other.
    """
    if config.clickhouse_url is None:
        return StoreConfig(directory=config.data_dir / "store")
    return StoreConfig(
        url=config.clickhouse_url,
        user=config.clickhouse_user,
        password=config.clickhouse_password,
        database=config.clickhouse_database,
        cluster=config.clickhouse_cluster,
        tls=TlsConfig(
            verify=not config.clickhouse_no_verify,
            ca_file=config.clickhouse_ca_file,
            certificate_file=config.clickhouse_certificate_file,
            key_file=config.clickhouse_key_file,
        ),
    )


def _check_url(url: str, tls: TlsConfig) -> None:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            "The address of ClickHouse is not one of its HTTP interface.",
            hint="It looks like http://host:8123 or https://host:8443.",
        )
    if urlsplit(url).scheme == "http" and tls != TlsConfig():
        raise ConfigError(
            "Certificates are given for ClickHouse, but its address is http.",
            hint="Use https://host:8443.",
        )
    for file in (tls.ca_file, tls.certificate_file, tls.key_file):
        if file is not None and not file.is_file():
            raise ConfigError(f"{file} is not a file.")
