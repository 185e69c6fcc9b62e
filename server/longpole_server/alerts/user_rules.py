"""Rules that users make: a threshold on any figure of a step, checked when it is saved."""

import math
import re
from collections.abc import Mapping

from longpole_server.alerts.detectors.threshold import Threshold
from longpole_server.alerts.inputs import label_of, unit_of
from longpole_server.alerts.panels import find_panel
from longpole_server.alerts.rule import DEFAULT_COOLDOWN_S, Rule
from longpole_server.alerts.wording import format_number
from longpole_server.errors import BadRequestError
from longpole_server.model.alert import Comparison, UserRule

PREFIX = "user."
MAX_RULES = 200
_SEVERITIES = ("info", "warning", "critical")
_NAME = re.compile(r"user\.[a-z0-9][a-z0-9_.-]{0,62}")
_NOT_OF_NAME = re.compile(r"[^a-z0-9]+")
_KNOWN = frozenset(
    {
        "rule_id",
        "title",
        "metric",
        "comparison",
        "threshold",
        "clear_threshold",
        "for_steps",
        "severity",
        "cooldown_s",
        "run",
        "author",
    }
)
_HINT = (
    'for example {"metric": "critic/score/mean", "comparison": "below", "threshold": 0.1, '
    '"for_steps": 3, "severity": "warning"}'
)


def read_user_rule(document: Mapping[str, object], rule_id: str | None = None) -> UserRule:
    """Return the rule of a JSON object.

    Args:
        document: As a user sent it.
        rule_id: The rule that is replaced, None for a new one.

    Raises:
        BadRequestError: It makes no sense; the message says which field and why.
    """
    unknown = sorted(set(document) - _KNOWN)
    if unknown:
        raise BadRequestError(f"a rule has no field {unknown[0]!r}", hint=_HINT)
    metric = _read_text(document, "metric", 1, 200)
    comparison = document.get("comparison", "above")
    if comparison not in ("above", "below"):
        raise BadRequestError("comparison must be `above` or `below`", hint=_HINT)
    side: Comparison = comparison
    threshold = _read_number(document, "threshold", None)
    clear = _read_number(document, "clear_threshold", threshold)
    if (clear > threshold) if side == "above" else (clear < threshold):
        raise BadRequestError(
            f"clear_threshold {clear:g} lies beyond threshold {threshold:g}: it would never clear",
            hint="it must be on the other side, or equal",
        )
    severity = document.get("severity", "warning")
    if severity not in _SEVERITIES:
        raise BadRequestError(f"severity must be one of: {', '.join(_SEVERITIES)}")
    title = _read_text(document, "title", 0, 120) or f"{label_of(metric)} {side} {threshold:g}"
    return UserRule(
        rule_id=rule_id or _read_id(document, metric, side),
        title=title,
        metric=metric,
        comparison=side,
        threshold=threshold,
        clear_threshold=clear,
        for_steps=_read_count(document, "for_steps", 1, 1_000),
        severity=severity,
        cooldown_s=_read_cooldown(document),
        run=_read_text(document, "run", 0, 200) or None,
        author=_read_text(document, "author", 0, 80),
    )


def make_rule(user: UserRule) -> Rule:
    """Return a user's rule in the form of the built-in ones."""
    unit = unit_of(user.metric)
    limit = format_number(user.threshold, unit)
    lasting = f" for {user.for_steps} steps" if user.for_steps > 1 else ""
    return Rule(
        user.rule_id,
        user.title,
        "trend",
        user.severity,
        Threshold(user.metric, user.threshold, user.clear_threshold, unit, user.comparison),
        condition=f"{user.metric} is {user.comparison} {limit}{lasting}",
        summary=f"{_literal(user.title)}: {_literal(user.metric)} is {{value}}, the limit is "
        "{threshold}.",
        cause=f"A rule{f' of {_literal(user.author)}' if user.author else ''} on this metric.",
        first_look=f"The metric {_literal(user.metric)} over the last steps.",
        for_steps=user.for_steps,
        cooldown_s=user.cooldown_s,
        panel=find_panel(user.metric),
        user=user,
    )


def _literal(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")


def _read_id(document: Mapping[str, object], metric: str, comparison: str) -> str:
    given = document.get("rule_id")
    if given is None:
        name = _NOT_OF_NAME.sub("-", metric.lower()).strip("-")[:50] or "rule"
        return f"{PREFIX}{name}-{comparison}"
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise BadRequestError(
            f"{given!r} is no id of a user's rule",
            hint="`user.` and then lower-case letters, digits, `-`, `_` or `.`",
        )
    return given


def _read_text(document: Mapping[str, object], name: str, least: int, most: int) -> str:
    value = document.get(name)
    if value is None and least == 0:
        return ""
    if not isinstance(value, str) or not least <= len(value.strip()) <= most:
        raise BadRequestError(f"{name} must be a text of {least} to {most} letters", hint=_HINT)
    return value.strip()


def _read_number(document: Mapping[str, object], name: str, default: float | None) -> float:
    value = document.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadRequestError(f"{name} must be a finite number", hint=_HINT)
    return float(value)


def _read_cooldown(document: Mapping[str, object]) -> float:
    value = _read_number(document, "cooldown_s", DEFAULT_COOLDOWN_S)
    if not 0 <= value <= 7 * 86_400:
        raise BadRequestError("cooldown_s must be 0 to 604800 seconds")
    return value


def _read_count(document: Mapping[str, object], name: str, least: int, most: int) -> int:
    value = document.get(name, least)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadRequestError(f"{name} must be a whole number from {least} to {most}", hint=_HINT)
    return value
