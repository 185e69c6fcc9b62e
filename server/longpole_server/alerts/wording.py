"""Numbers and texts of alerts as people read them."""

import math
import re

from longpole_server.alerts.rule import Judgement

_UNIT_SUFFIX = {
    "1": "",
    "s": " s",
    "tokens": " tokens",
    "tokens/s": " tokens/s",
    "tokens/s/GPU": " tokens/s/GPU",
    "nats": " nats",
    "versions": " versions",
    "samples": " samples",
    "requests": " requests",
    "W": " W",
}
_COUNTED = frozenset({"tokens", "versions", "samples", "requests", "steps", "errors"})
_UNKNOWN = "unknown"
_NAME = re.compile(r"\{(\w+)\}")


def format_number(value: float | None, unit: str) -> str:
    """Return a value with its unit; ratios in percent, seconds as people say them."""
    if value is None:
        return _UNKNOWN
    if not math.isfinite(value):
        return str(value)
    if unit == "ratio":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return format_seconds(value)
    if unit == "bytes":
        return _format_bytes(value)
    if value == 1 and unit in _COUNTED:
        return f"1 {unit.removesuffix('s')}"
    digits = f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return digits + _UNIT_SUFFIX.get(unit, f" {unit}")


def format_seconds(seconds: float) -> str:
    """Return a duration: `4.2 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`."""
    if abs(seconds) < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, rest_size, rest_unit in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // rest_size
            return f"{whole // size} {unit}" + (f" {rest} {rest_unit}" if rest else "")
    return f"{whole} s"


def fill_text(template: str, judgement: Judgement, entity_id: str) -> str:
    """Return a rule's text with its numbers; a name that nobody knows reads as `unknown`."""
    known: dict[str, str] = {
        "value": format_number(judgement.value, judgement.unit),
        "threshold": format_number(judgement.threshold, judgement.unit),
        "baseline": format_number(judgement.baseline, judgement.unit),
        "entity": entity_id,
        **judgement.words,
    }
    return _NAME.sub(lambda match: known.get(match[1], _UNKNOWN), template).strip()


def _format_bytes(value: float) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"
