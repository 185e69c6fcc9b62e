"""Sessions of people's browsers: a signed cookie, valid while its owner and their secret are.

Nothing is kept on the server, so a restart signs nobody out, and several servers with one key
accept each other's sessions.
"""

import hmac
import os
import secrets
import tempfile
from pathlib import Path

from itsdangerous import BadData, URLSafeTimedSerializer

from longpole_server.auth.book import AccessBook
from longpole_server.errors import ConfigError
from longpole_server.model.principal import Principal

_SALT = "longpole.session/1"
_MIN_KEY_CHARACTERS = 32


class Sessions:
    """Makes sessions and reads them.

    Args:
        book: Knows whether a session's owner is still there.
        key: Signs them.
        max_age_s: How long one lasts.
    """

    def __init__(self, book: AccessBook, key: str, max_age_s: int) -> None:
        self._book = book
        self._serializer = URLSafeTimedSerializer(key, salt=_SALT)
        self.max_age_s = max_age_s

    def make(self, principal: Principal) -> str:
        """Return the value of a cookie for somebody who proved who they are."""
        return self._serializer.dumps([principal.subject, principal.stamp])

    def find(self, value: str) -> Principal | None:
        """Return whose session it is; None when forged, too old, or its owner's secret changed."""
        try:
            match self._serializer.loads(value, max_age=self.max_age_s):
                case [str(subject), str(stamp)]:
                    principal = self._book.find_by_subject(subject)
                case _:
                    return None
        except BadData:
            return None
        if principal is None or not hmac.compare_digest(principal.stamp, stamp):
            return None
        return principal


def check_key(key: str | None) -> str | None:
    """Return a key that somebody chose.

    Raises:
        ConfigError: It is so short that it may be guessed; sessions could be forged.
    """
    if key is not None and len(key) < _MIN_KEY_CHARACTERS:
        raise ConfigError(
            f"the session key has fewer than {_MIN_KEY_CHARACTERS} characters",
            hint="make one by `openssl rand -hex 32`",
        )
    return key


def load_key(file: Path) -> str:
    """Return the key in a file for its owner alone; it is made when missing.

    Raises:
        ConfigError: It cannot be read or made.
    """
    try:
        if not file.exists():
            _make_key(file)
        key = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read or make the session key {file}: {error}") from error
    if len(key) < _MIN_KEY_CHARACTERS:
        raise ConfigError(f"{file} holds no key", hint="remove it: a new one is made at the start")
    return key


def _make_key(file: Path) -> None:
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    with os.fdopen(number, "w", encoding="ascii") as opened:
        opened.write(secrets.token_urlsafe(48))
    try:
        # The first of two servers that start at once wins.
        os.link(name, file)
    except FileExistsError:
        pass
    finally:
        Path(name).unlink()
