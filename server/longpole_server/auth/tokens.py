"""Tokens: 256 random bits that name their own entry in the book, of which it holds a hash alone."""

import hashlib
import hmac
import re
import secrets

_FORM = re.compile(r"lp_(?P<id>[0-9a-f]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


def make_token() -> tuple[str, str]:
    """Return a new token and its id, which is no secret."""
    token_id = secrets.token_hex(6)
    return f"lp_{token_id}_{secrets.token_urlsafe(32)}", token_id


def read_token_id(token: str) -> str | None:
    """Return the id that a token names, None when it has not the form of one."""
    match = _FORM.fullmatch(token)
    return match["id"] if match is not None else None


def hash_token(token: str) -> str:
    """Return what is kept of a token. Random bits need no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def is_token(token: str, hashed: str) -> bool:
    """Tell in constant time whether a token has this hash."""
    return hmac.compare_digest(hash_token(token), hashed)
