"""Silences: as users make them, and which alerts they keep from people."""

from collections.abc import Iterable, Mapping

from longpole_server.alerts.events import Fingerprint
from longpole_server.errors import BadRequestError
from longpole_server.model.alert import Silence

_NS_PER_S = 1_000_000_000
_LONGEST_SILENCE_S = 30 * 86_400
_MAX_TEXT = 1_000
_SILENCE_FIELDS = frozenset(
    {"rule", "run_id", "entity", "author", "comment", "ends_ns", "duration_s"}
)


def list_in_force(silences: Iterable[Silence], now_ns: int) -> tuple[Silence, ...]:
    """Return the silences that are in force at a time of the wall clock.

    One that begins later was made before the clock went back.
    """
    return tuple(silence for silence in silences if now_ns < silence.ends_ns)


def find_silence(silences: Iterable[Silence], alert: Fingerprint) -> str:
    """Return the id of a silence that covers an alert, else an empty string."""
    return next(
        (silence.silence_id for silence in silences if _matches(silence, alert)),
        "",
    )


def _matches(silence: Silence, alert: Fingerprint) -> bool:
    of_rule = silence.rule is None or alert.rule == silence.rule
    of_rule = of_rule or alert.rule.startswith(f"{silence.rule}.")
    of_run = silence.run_id is None or alert.run_id == silence.run_id
    of_entity = silence.entity is None or alert.entity_id == silence.entity
    return of_rule and of_run and of_entity


def read_silence(document: Mapping[str, object], silence_id: str, now_ns: int) -> Silence:
    """Return the silence of a JSON object; it begins now.

    Raises:
        BadRequestError: It makes no sense; the message says which field and why.
    """
    unknown = sorted(set(document) - _SILENCE_FIELDS)
    if unknown:
        raise BadRequestError(f"a silence has no field {unknown[0]!r}")
    rule, run_id, entity = (_read_text(document, name) for name in ("rule", "run_id", "entity"))
    if rule is None and run_id is None and entity is None:
        raise BadRequestError(
            "a silence names a rule, a run_id or an entity", hint="one of them is enough"
        )
    author = _read_text(document, "author")
    if author is None:
        raise BadRequestError("a silence names its author")
    ends_ns = _read_end(document, now_ns)
    if not now_ns < ends_ns <= now_ns + _LONGEST_SILENCE_S * _NS_PER_S:
        raise BadRequestError(
            "a silence ends in the future, within 30 days", hint='for example {"duration_s": 3600}'
        )
    comment = _read_text(document, "comment") or ""
    return Silence(silence_id, rule, run_id, entity, author, comment, now_ns, ends_ns)


def _read_end(document: Mapping[str, object], now_ns: int) -> int:
    ends_ns, duration_s = document.get("ends_ns"), document.get("duration_s")
    if isinstance(ends_ns, int) and not isinstance(ends_ns, bool) and duration_s is None:
        return ends_ns
    if (
        ends_ns is None
        and isinstance(duration_s, int | float)
        and not isinstance(duration_s, bool)
        and 0 < duration_s <= _LONGEST_SILENCE_S
    ):
        return now_ns + round(duration_s * _NS_PER_S)
    raise BadRequestError(
        "a silence has either ends_ns (UTC nanoseconds) or duration_s (up to 30 days)"
    )


def _read_text(document: Mapping[str, object], name: str) -> str | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > _MAX_TEXT:
        raise BadRequestError(f"{name} must be a text of 1 to {_MAX_TEXT} letters")
    return value.strip()
