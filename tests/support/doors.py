"""Doors with users and tokens, without a server behind them."""

from collections.abc import Mapping
from pathlib import Path

from httpx2 import Response
from starlette.testclient import TestClient

from longpole_server.api.access import Access
from longpole_server.api.login import Door
from longpole_server.api.peers import Proxies
from longpole_server.auth.attempts import Attempts
from longpole_server.auth.audit import AuditLog
from longpole_server.auth.book import AccessBook
from longpole_server.auth.entries import TokenEntry, UserEntry, edit_entries
from longpole_server.auth.marks import Marks
from longpole_server.auth.passwords import hash_password
from longpole_server.auth.sessions import Sessions
from longpole_server.auth.tokens import hash_token, make_token
from longpole_server.model.principal import Role

PASSWORD = "correct horse battery"
# Hashed once: it takes a while.
_HASHED = hash_password(PASSWORD)


def add_user(file: Path, name: str, role: Role = "viewer", projects: list[str] | None = None):
    with edit_entries(file) as entries:
        entries.users[name] = UserEntry(password=_HASHED, role=role, projects=projects)


def add_token(
    file: Path,
    role: Role = "ingest",
    projects: list[str] | None = None,
    expires_ns: int | None = None,
) -> str:
    token, token_id = make_token()
    with edit_entries(file) as entries:
        entries.tokens[token_id] = TokenEntry(
            name=f"{role}-of-{projects or 'all'}".replace("[", "").replace("]", ""),
            sha256=hash_token(token),
            role=role,
            projects=projects,
            created_ns=0,
            expires_ns=expires_ns,
        )
    return token


def make_door(
    directory: Path,
    token: str | None = None,
    proxies: Proxies | None = None,
    hosts: frozenset[str] | None = None,
    attempts: Attempts | None = None,
) -> Door:
    """A door on `access.json` of a directory; no time passes for whoever has to wait."""
    book = AccessBook(directory / "access.json", token)
    key = "k" * 40
    access = Access(book, Sessions(book, key, 3_600), proxies or Proxies(), "viewer", hosts)
    return Door(
        access,
        attempts or Attempts(clock_s=lambda: 0.0),
        Marks(key),
        AuditLog(directory / "audit.jsonl"),
    )


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def sign_in(client: TestClient, name: str, password: str = PASSWORD, **headers: str) -> Response:
    """Send the form as a browser does."""
    fields = {"name": name, "password": password}
    return client.post("/login?next=/run?id=a", data=fields, headers=headers)
