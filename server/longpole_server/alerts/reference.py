"""Writes the reference of the built-in alert rules as Markdown, from the rules themselves.

python -m longpole_server.alerts.reference > docs/alert-rules.md
"""

import sys
from collections.abc import Iterator

from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.rule import Rule

_INTRODUCTION = """\
# Alert rules

The built-in rules: when each fires, what usually causes it, and what to look at first. This
page is made from the rules by `python -m longpole_server.alerts.reference`; a test keeps it up
to date. How alerts are delivered, silenced and replayed: [alerts](alerts.md). `GET
/api/v1/rules` of a running server says of each rule what it saw last and why it is quiet.

`trend` rules are left out while a run warms up, after a resume, and in steps with a validation
or a checkpoint; faults and exceeded bounds always count. "For three steps" means three steps,
one after the other, that report what the rule reads; those that do not are passed over.
"""
_HEAD = "| rule | severity | fires when |\n|---|---|---|\n"


def write_reference() -> str:
    """Return the page."""
    rows = "".join(
        f"| [`{rule.rule_id}`](#{_anchor(rule)}) | {rule.severity} | {_cell(rule.condition)} |\n"
        for rule in BUILT_IN_RULES
    )
    parts = [_INTRODUCTION, _HEAD + rows]
    parts += ["\n".join(_describe(rule)) for rule in BUILT_IN_RULES]
    return "\n".join(parts)


def _describe(rule: Rule) -> Iterator[str]:
    yield f"## `{rule.rule_id}`\n"
    yield f"{rule.title}: {rule.kind}, {rule.severity}, of a {rule.entity_kind}.\n"
    yield f"- **Fires when** {rule.condition}{_describe_holding(rule)}."
    thresholds = _describe_thresholds(rule)
    if thresholds:
        yield f"- **Thresholds:** {thresholds}"
    if rule.detector.reads:
        yield "- **Reads:** " + ", ".join(f"`{name}`" for name in rule.detector.reads)
    if rule.yields_to:
        tellers = " or ".join(f"`{rule_id}`" for rule_id in rule.yields_to)
        yield f"- **Keeps still while** {tellers} tells of the same {rule.entity_kind} or its node."
    yield f"- **Cause:** {_fill(rule.cause)}"
    yield f"- **Look first:** {_fill(rule.first_look)}\n"


def _describe_holding(rule: Rule) -> str:
    if rule.trigger == "step":
        return "" if rule.for_steps == 1 else f", for {rule.for_steps} steps"
    return "" if not rule.for_s else f", for {rule.for_s:g} s"


def _describe_thresholds(rule: Rule) -> str:
    detector = rule.detector
    unit = "" if detector.unit in {"1", ""} else f" {detector.unit}"
    said = [
        f"{word} {value:g}{unit}"
        for word, value in (("fires at", detector.fire), ("over at", detector.clear))
        if value is not None
    ]
    return ", ".join(said)


def _fill(text: str) -> str:
    """Return a text whose gaps, filled in when an alert fires, stand as words."""
    return text.replace("{", "<").replace("}", ">").replace("<", "*").replace(">", "*")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(rule: Rule) -> str:
    return rule.rule_id.replace(".", "")


if __name__ == "__main__":
    sys.stdout.write(write_reference())
