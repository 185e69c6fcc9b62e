"""Which part of a server a process is, and what each part needs."""

from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from longpole_server.errors import ConfigError

ROLES = ("all", "ingest", "web")


class RoleSettings(Protocol):
    """The settings that a role asks for."""

    @property
    def role(self) -> str: ...  # noqa: D102 - named as the option
    @property
    def writer_url(self) -> str | None: ...  # noqa: D102
    @property
    def writer_ca_file(self) -> Path | None: ...  # noqa: D102
    @property
    def clickhouse_url(self) -> str | None: ...  # noqa: D102
    @property
    def session_key(self) -> str | None: ...  # noqa: D102
    @property
    def is_guarded(self) -> bool: ...  # noqa: D102


def check_role(settings: RoleSettings) -> None:
    """Refuse a role whose settings are not there.

    Raises:
        ConfigError: With what to set.
    """
    role = settings.role
    if role not in ROLES:
        raise ConfigError(f"--role {role!r} is none of: {', '.join(ROLES)}")
    if role != "all" and settings.clickhouse_url is None:
        raise ConfigError(
            f"the role {role} shares its database with other servers, and the embedded store has"
            " one process",
            hint="set --clickhouse-url, or let one server do everything: --role all",
        )
    if role != "web":
        if settings.writer_url is not None or settings.writer_ca_file is not None:
            raise ConfigError(
                "--writer-url is for the role web: other servers take data themselves",
                hint="set --role web, or leave it out",
            )
        return
    if settings.writer_url is None:
        raise ConfigError(
            "the role web passes on what changes something",
            hint="say with --writer-url where the server that takes data is",
        )
    _check_address(settings.writer_url)
    if settings.is_guarded and settings.session_key is None:
        raise ConfigError(
            "servers behind one address sign sessions with one key",
            hint="give every one of them the same --session-key-file",
        )


def _check_address(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_address = (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and not parts.username
            and parts.path in {"", "/"}
        )
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigError(
            "--writer-url is no address of a server",
            hint="it looks like http://longpole-server:8470",
        )
