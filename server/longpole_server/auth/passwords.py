"""Passwords, hashed with Argon2id at the library's defaults (RFC 9106, low memory)."""

from functools import cache

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

MIN_LENGTH = 10
MAX_LENGTH = 256
_hasher = argon2.PasswordHasher()


def hash_password(password: str) -> str:
    """Return the hash of a password with its salt and parameters.

    Raises:
        ValueError: It is too short or too long.
    """
    if not MIN_LENGTH <= len(password) <= MAX_LENGTH:
        raise ValueError(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters")
    return _hasher.hash(password)


def verify_password(hashed: str | None, password: str) -> bool:
    """Tell whether a password is the hashed one; without a hash no password is.

    Takes tens of milliseconds, whatever the answer.
    """
    if len(password) > MAX_LENGTH:
        return False
    # Asked for by whoever comes first, known or not: no answer tells by its time.
    of_nobody = _hash_for_nobody()
    try:
        return _hasher.verify(hashed or of_nobody, password) and hashed is not None
    except (VerificationError, InvalidHashError):
        return False


@cache
def _hash_for_nobody() -> str:
    """Return what an unknown user's password is compared with: that takes as long as a known one's.

    Not made at the start: it would cost every command a quarter of a second.
    """
    return _hasher.hash("nobody has this password")
