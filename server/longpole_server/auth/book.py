"""Who is who: the server's own token, and the users and tokens of the access file."""

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from longpole_server.auth.entries import Entries, UserEntry, list_changes, load_entries
from longpole_server.auth.passwords import verify_password
from longpole_server.auth.tokens import hash_token, is_token, read_token_id
from longpole_server.errors import ConfigError
from longpole_server.model.principal import Principal

_logger = logging.getLogger(__name__)

# The file is looked at this often: so long a revoked token is good at most.
_LOOK_S = 1.0
_OWN_TOKEN = "the server's token"  # noqa: S105 - its name, not its value


class AccessBook:
    """Tells who a token, a password or a session belongs to.

    Reads the access file again when it changes; while a changed one is wrong, the last good one
    holds, and the log says so. Thread-safe.

    Args:
        file: The access file; it need not exist.
        token: The server's own token, good for everything; None without one.
        clock_ns: UTC nanoseconds, for tokens that expire.
        on_change: Told of each user and token that changed since the file was read last.

    Raises:
        ConfigError: The file is wrong from the start.
    """

    def __init__(
        self,
        file: Path,
        token: str | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_s: Callable[[], float] = time.monotonic,
        on_change: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._own_hash = hash_token(token) if token is not None else None
        self._clock_ns = clock_ns
        self._monotonic_s = monotonic_s
        self._on_change = on_change
        self._lock = threading.Lock()
        self._seen = self._stat()
        self._has_file = self._seen is not None
        self._entries = load_entries(file)
        self._looked_s = monotonic_s()

    @property
    def is_open(self) -> bool:
        """Whether nobody is asked for credentials: there is neither a token nor an access file.

        A file closes it, also an empty one, and removing the file does not open it again.
        """
        self._read()
        return self._own_hash is None and not self._has_file

    @property
    def has_users(self) -> bool:
        """Whether people sign in with a name and a password."""
        return bool(self._read().users)

    def find_by_token(self, token: str) -> Principal | None:
        """Return whom a token belongs to, None when it is none, revoked or expired."""
        if self._own_hash is not None and is_token(token, self._own_hash):
            return self._make_own()
        token_id = read_token_id(token)
        entry = self._read().tokens.get(token_id) if token_id is not None else None
        if token_id is None or entry is None or not is_token(token, entry.sha256):
            return None
        return self._make_of_token(token_id)

    def find_by_password(self, name: str, password: str) -> Principal | None:
        """Return the user that a name and a password belong to. Takes tens of milliseconds."""
        user = self._read().users.get(name)
        if not verify_password(user.password if user is not None else None, password):
            return None
        return _make_of_user(name, user) if user is not None else None

    def find_by_subject(self, subject: str) -> Principal | None:
        """Return who a subject is today: `user/NAME`, `token/ID` or `own`; None when gone."""
        kind, _, name = subject.partition("/")
        if kind == "user":
            user = self._read().users.get(name)
            return _make_of_user(name, user) if user is not None else None
        if kind == "token":
            return self._make_of_token(name)
        return self._make_own() if kind == "own" and self._own_hash is not None else None

    def _make_own(self) -> Principal:
        return Principal(_OWN_TOKEN, "admin", None, _stamp(self._own_hash or ""), "own")

    def _make_of_token(self, token_id: str) -> Principal | None:
        entry = self._read().tokens.get(token_id)
        if entry is None:
            return None
        if entry.expires_ns is not None and entry.expires_ns <= self._clock_ns():
            return None
        return Principal(
            f"token {entry.name}",
            entry.role,
            _narrow(entry.projects),
            _stamp(entry.sha256),
            f"token/{token_id}",
        )

    def _read(self) -> Entries:
        now_s = self._monotonic_s()
        with self._lock:
            if now_s - self._looked_s < _LOOK_S:
                return self._entries
            self._looked_s = now_s
            seen = self._stat()
            if seen != self._seen:
                self._seen = seen
                self._has_file = True
                try:
                    entries = load_entries(self._file)
                except ConfigError as error:
                    _logger.error("%s; the users and tokens from before hold", error.message)
                else:
                    before, self._entries = self._entries, entries
                    for change in list_changes(before, entries):
                        self._on_change(change)
            return self._entries

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _make_of_user(name: str, user: UserEntry) -> Principal:
    return Principal(name, user.role, _narrow(user.projects), _stamp(user.password), f"user/{name}")


def _narrow(projects: list[str] | None) -> frozenset[str] | None:
    return None if projects is None else frozenset(projects)


def _stamp(hashed: str) -> str:
    return hashlib.sha256(b"longpole session" + hashed.encode()).hexdigest()[:16]
