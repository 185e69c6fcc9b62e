"""Sessions of people's browsers: a signed cookie, valid while its owner and their secret are.

Nothing of a session is kept on the server before it is ended, so a restart signs nobody out, and
several servers with one key accept each other's sessions.
"""

import hmac
import os
import secrets
import tempfile
from pathlib import Path

from itsdangerous import BadData, URLSafeTimedSerializer

from longpole_server.auth.book import AccessBook
from longpole_server.auth.ended import EndedSessions, EndsElsewhere
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
        ended: Those that their owners ended.
    """

    def __init__(
        self, book: AccessBook, key: str, max_age_s: int, ended: EndedSessions | None = None
    ) -> None:
        self._book = book
        self._ended = ended if ended is not None else EndedSessions(None, max_age_s)
        self._serializer = URLSafeTimedSerializer(key, salt=_SALT)
        self.max_age_s = max_age_s

    def make(self, principal: Principal) -> str:
        """Return the value of a cookie for somebody who proved who they are."""
        session_id = secrets.token_hex(8)
        return self._serializer.dumps([principal.subject, principal.stamp, session_id])

    def find(self, value: str) -> Principal | None:
        """Return whose session it is.

        None when it is forged, too old or ended, or its owner's secret changed.
        """
        read = self._read(value)
        if read is None or read[2] in self._ended:
            return None
        principal = self._book.find_by_subject(read[0])
        if principal is None or not hmac.compare_digest(principal.stamp, read[1]):
            return None
        return principal

    def end(self, value: str) -> None:
        """End a session for good, wherever its cookie was copied to."""
        read = self._read(value)
        if read is not None:
            self._ended.add(read[2])

    def share_ends(self, elsewhere: EndsElsewhere) -> None:
        """Know of sessions that ended at another server, and tell it. Raises as its methods."""
        self._ended.share(elsewhere)

    def learn_ends(self, elsewhere: EndsElsewhere, since_s: int) -> None:
        """Learn which ended at another server within so many seconds. Raises as its methods."""
        self._ended.learn_of(elsewhere, since_s)

    def _read(self, value: str) -> tuple[str, str, str] | None:
        """Return subject, stamp and id of a session; None when it is forged or too old."""
        try:
            match self._serializer.loads(value, max_age=self.max_age_s):
                case [str(subject), str(stamp), str(session_id)]:
                    return subject, stamp, session_id
                case _:
                    return None
        except BadData:
            return None


def check_key(key: str | None, name: str = "session key") -> str | None:
    """Return a key that somebody chose.

    Raises:
        ConfigError: It is so short that it may be guessed; sessions or names could be forged.
    """
    if key is not None and len(key) < _MIN_KEY_CHARACTERS:
        raise ConfigError(
            f"the {name} has fewer than {_MIN_KEY_CHARACTERS} characters",
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
