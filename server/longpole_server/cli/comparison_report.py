"""`longpole.comparison/1` for people: by how much, through what, and what got slower."""

import math
import textwrap
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
WIDTH = 100
_MAX_SETTINGS = 20
_LONGEST_SETTING = 48
_UNITS = {
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "tokens_per_s": "tokens/s",
    "steps_per_s_per_gpu": "steps/s/GPU",
    "steps_per_s": "steps/s",
}


def render_comparison(document: Document, encoding: str = "utf-8") -> str:
    """Return the report: the answer, its parts, what got slower, what was set otherwise.

    Args:
        document: The comparison.
        encoding: What the terminal can show; other characters are replaced.
    """
    sections = (_answer(document), _parts(document), _findings(document), _settings(document))
    text = "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))
    return text.encode(encoding, errors="replace").decode(encoding)


def _answer(document: Document) -> Iterator[str]:
    change, names = document["change"], _names(document)
    if change["log_change"] is None:
        yield from _wrap(f"{names[0]} cannot be compared with {names[1]}: {change['reason']}.")
    else:
        factor = change["factor"]
        words = "as fast as" if abs(factor - 1) < 0.0005 else f"{factor:.3f} times as fast as"
        unit = _UNITS[change["quantity"]]
        after, before = (document[side] for side in ("window", "with_window"))
        rates = [_amount(side["loop_throughput"], unit) for side in (after, before)]
        yield from _wrap(
            f"{names[0]} is {words} {names[1]}: {rates[0]} against {rates[1]}, with what runs "
            "between the steps."
        )
    yield ""
    for name, side in zip(names, ("window", "with_window"), strict=True):
        yield from _wrap(f"{name}: {_describe(document[side])}")
    for remark in document["remarks"]:
        yield from _wrap(f"Note: {remark}.")


def _names(document: Document) -> tuple[str, str]:
    """Return the runs' names, their windows with them where it is one run."""
    sides = (document["window"], document["with_window"])
    if sides[0]["name"] != sides[1]["name"]:
        return sides[0]["name"], sides[1]["name"]
    first, second = (f"{side['name']}, steps {side['from']} to {side['to']}" for side in sides)
    return (first, second) if first != second else (f"{first} (A)", f"{second} (B)")


def _describe(window: Document) -> str:
    if not window["num_judged"]:
        return "no step that counts"
    words = f"steps {window['from']} to {window['to']}, {window['num_judged']} of them judged"
    words += f", {_amount(window['step_s'], 's')} a step"
    if window["tokens"] is not None:
        words += f", {_amount(window['tokens'], 'tokens')}"
    gpus = window["gpus"]
    return words if gpus is None else f"{words}, {gpus:.4g} GPU{'' if gpus == 1 else 's'}"


def _parts(document: Document) -> Iterator[str]:
    """All parts, the largest change first; what is not known last."""
    parts = document["decomposition"]
    if not parts:
        return
    yield "What it is made of: factors that multiply to the whole"
    for part in sorted(parts, key=lambda part: -abs(part["log_change"] or 0.0)):
        name = f"{part['name']}, between steps" if part["kind"] == "outside" else part["name"]
        if part["log_change"] is None:
            yield from _wrap(f"  {name:<26} unknown: {part['reason']}")
        else:
            amounts = " to ".join(
                _amount(part[side], part["unit"]) for side in ("with_value", "value")
            )
            yield f"  {name:<26} {_times(part['log_change']):>9}  {amounts}"
    yield f"  {'all together':<26} {_times(document['change']['log_change']):>9}"


def _findings(document: Document) -> Iterator[str]:
    if document["findings"]:
        yield "For as much work"
    for finding in document["findings"]:
        yield from _wrap(finding["summary"], f"  {finding['severity']:<8} {finding['code']}: ")


def _settings(document: Document) -> Iterator[str]:
    differences = document["config"]
    if differences:
        yield "Set otherwise"
    for difference in differences[:_MAX_SETTINGS]:
        before, after = (_cut(difference[side]) for side in ("with_value", "value"))
        yield from _wrap(f"  {difference['key']}: {before} to {after}")
    if len(differences) > _MAX_SETTINGS:
        yield f"  and {len(differences) - _MAX_SETTINGS} more with --json"


def _cut(value: str | None) -> str:
    if value is None:
        return "(not set)"
    return value if len(value) <= _LONGEST_SETTING else f"{value[: _LONGEST_SETTING - 3]}..."


def _times(log_change: float) -> str:
    return f"x {math.exp(min(log_change, 700.0)):.3f}"


def _amount(value: float, unit: str) -> str:
    digits = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return digits if unit == "1" else f"{digits} {unit}"


def _wrap(text: str, first: str = "") -> list[str]:
    return textwrap.wrap(
        first + text,
        WIDTH,
        subsequent_indent="    " if first or text.startswith("  ") else "",
        break_long_words=False,
        break_on_hyphens=False,
    )
