"""The access file: users and tokens as JSON, written whole and readable by its owner alone.

{"version": 1,
 "users":  {"<name>": {"password": "<argon2id>", "role": "viewer", "projects": null}},
 "tokens": {"<id>": {"name": "...", "sha256": "...", "role": "ingest", "projects": ["a"],
                     "created_ns": 0, "expires_ns": null}}}
"""

import contextlib
import fcntl
import os
import re
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from longpole_server.errors import ConfigError
from longpole_server.model.principal import Role

_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
_MAX_BYTES = 16 << 20

Projects = list[Annotated[str, Field(min_length=1, max_length=255)]] | None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    role: Role
    projects: Projects = None


class UserEntry(_Entry):
    """A person: `password` is its Argon2 hash."""

    password: str = Field(repr=False)


class TokenEntry(_Entry):
    """A program's token: of it only the hash is kept."""

    name: str
    sha256: str = Field(repr=False, pattern=r"^[0-9a-f]{64}$")
    created_ns: int
    expires_ns: int | None = None


class Entries(BaseModel):
    """All of an access file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = _VERSION
    users: dict[str, UserEntry] = Field(default_factory=dict)
    tokens: dict[str, TokenEntry] = Field(default_factory=dict)


def is_name(text: str) -> bool:
    """Tell whether a user or token may be called so."""
    return _NAME.fullmatch(text) is not None


def list_changes(before: Entries, after: Entries) -> list[str]:
    """Say in words who came, who went, and whose rights are others; no secret."""
    return [
        *_list_changes("user", before.users, after.users, "a new password"),
        *_list_changes("token", before.tokens, after.tokens, "a new secret"),
    ]


def _list_changes(
    kind: str,
    before: Mapping[str, UserEntry] | Mapping[str, TokenEntry],
    after: Mapping[str, UserEntry] | Mapping[str, TokenEntry],
    renewed: str,
) -> list[str]:
    changes: list[str] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if new is None:
            changes.append(f"{kind} {name} removed")
        elif old is None:
            changes.append(f"{kind} {name} added, {_describe(new)}")
        elif old != new:
            rights = _describe(new)
            changes.append(
                f"{kind} {name} has {renewed}" if rights == _describe(old)
                else f"{kind} {name} is now {rights}"
            )  # fmt: skip
    return changes


def _describe(entry: _Entry) -> str:
    where = "all projects" if entry.projects is None else ", ".join(entry.projects) or "no project"
    return f"{entry.role} of {where}"


def load_entries(file: Path) -> Entries:
    """Read an access file; a missing one is empty.

    Raises:
        ConfigError: It cannot be read, or is not of this form.
    """
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return Entries()
    except OSError as error:
        raise ConfigError(f"cannot read the access file {file}: {error.strerror}") from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"the access file {file} is larger than {_MAX_BYTES:,} bytes")
    try:
        return Entries.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise ConfigError(f"the access file {file} is wrong at {where}: {first['msg']}") from error


@contextlib.contextmanager
def edit_entries(file: Path) -> Generator[Entries]:
    """Change an access file: what the caller made of the entries replaces it in one step.

    Raises:
        ConfigError: It cannot be read or written.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _open_lock(file.parent / f".{file.name}.lock")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        entries = load_entries(file)
        yield entries
        try:
            _replace(file, entries.model_dump_json(indent=1).encode())
        except OSError as error:
            raise ConfigError(f"cannot write {file}: {error.strerror}") from error


def _open_lock(path: Path) -> BinaryIO:
    """Open what is locked while entries change; root does so in a directory of the server's.

    A link would lead it to a file of its own, and nothing is ever written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "rb")


def _replace(file: Path, text: bytes) -> None:
    # `mkstemp` makes it for its owner alone.
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(number, "wb") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
