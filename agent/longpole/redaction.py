"""A run's configuration as flat attributes, without its secrets."""

import re
from collections.abc import Mapping, Sequence
from typing import cast

from longpole.conventions import attributes as names
from longpole.values import AttributeValue, to_number

REDACTED = "[redacted]"
_MAX_ENTRIES = 512
_MAX_LENGTH = 512
_MAX_DEPTH = 8

_SECRET_PARTS = ("password", "passwd", "passphrase", "secret", "credential")
# Whole words only: `max_tokens`, `tokenizer` and `key` numbers explain a run, `hf_token` does not.
_SECRET_WORD_ENDINGS = ("key", "keys", "token", "tokens")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_URL_LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def flatten_config(config: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return `rl.config.*` attributes: nested keys joined by dots, secrets redacted, bounded."""
    flat: dict[str, AttributeValue] = {}
    _flatten(config, "", 0, flat)
    return {names.CONFIG_PREFIX + key: value for key, value in flat.items()}


def is_secret(key: str, value: object) -> bool:
    """Return whether a value under this key must not leave the process.

    Numbers under `token` or `key` stay (`max_token_len`, `num_keys`): they are settings.
    """
    lowered = key.lower()
    if any(part in lowered for part in _SECRET_PARTS):
        return True
    if value is None or isinstance(value, bool | int | float):
        return False
    words: list[str] = _WORDS.findall(key)
    return any(word.lower().endswith(_SECRET_WORD_ENDINGS) for word in words)


def _flatten(
    config: Mapping[str, object], prefix: str, depth: int, flat: dict[str, AttributeValue]
) -> None:
    for name, value in config.items():
        if len(flat) >= _MAX_ENTRIES:
            return
        key = f"{prefix}{name}"
        nested = _as_mapping(value) if depth < _MAX_DEPTH else None
        if nested is not None:
            _flatten(nested, f"{key}.", depth + 1, flat)
        elif value is not None:
            flat[key] = REDACTED if is_secret(key, value) else _describe(value)


def _as_mapping(value: object) -> Mapping[str, object] | None:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else None


def _describe(value: object) -> AttributeValue:
    if isinstance(value, str):
        return _clean(value)
    number = to_number(value)
    if number is not None:
        return bool(value) if isinstance(value, bool) else number
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        items = cast("Sequence[object]", value)[:_MAX_LENGTH]
        return _clean(", ".join(str(_describe(item)) for item in items))
    try:
        return _clean(str(value))
    except Exception:  # noqa: BLE001 - a foreign `__str__` may raise anything
        return type(value).__name__


def _clean(text: str) -> str:
    return _URL_LOGIN.sub(REDACTED, text)[:_MAX_LENGTH]
