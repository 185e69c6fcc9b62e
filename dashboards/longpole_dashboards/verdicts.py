"""Verdicts in a few words: titles and badges."""

from longpole_server.service.verdict_kinds import VERDICT_KINDS, VERDICTS, VerdictKind

__all__ = ["VERDICTS", "VERDICT_KINDS", "VerdictKind", "verdict_badge", "verdict_title"]


def verdict_title(code: str | None) -> str:
    """Return what a verdict means in a few words."""
    if code is None:
        return "No verdict yet"
    kind = VERDICTS.get(code)
    return kind.title if kind is not None else code


def verdict_badge(code: str | None) -> str:
    """Return a verdict short enough for a badge: `long tail`, `update inefficient`."""
    if code is None:
        return ""
    family, _, rest = code.partition(".")
    words = rest.replace("_", " ") or family
    return words if family in ("rollout", "async") or not rest else f"{family} {words}"
