"""Marks of browsers in which somebody signed in before: signed, and good for one name."""

import secrets

from itsdangerous import BadData, URLSafeTimedSerializer

MARK_AGE_S = 365 * 86_400
_SALT = "longpole.browser/1"


class Marks:
    """Makes marks and reads them. A mark opens nothing: who has one still needs the password.

    Args:
        key: Signs them, as it signs sessions.
    """

    def __init__(self, key: str) -> None:
        self._serializer = URLSafeTimedSerializer(key, salt=_SALT)

    def make(self, name: str) -> str:
        """Return the value of a cookie for the browser of somebody who signed in."""
        return self._serializer.dumps([name, secrets.token_hex(8)])

    def find(self, value: str | None, name: str) -> str | None:
        """Return what tells the browser from others; None when its mark is not of this name."""
        try:
            match self._serializer.loads(value or "", max_age=MARK_AGE_S):
                case [str(owner), str(mark)] if owner == name:
                    return mark
                case _:
                    return None
        except BadData:
            return None
