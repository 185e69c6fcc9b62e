"""Writes the reference of verdicts, findings and thresholds as Markdown, from the rules themselves.

python -m longpole_server.diagnosis.reference > docs/verdicts.md
"""

import sys
from collections.abc import Iterator

from longpole_server.diagnosis.finding_kind import FindingKind
from longpole_server.diagnosis.findings import FINDINGS
from longpole_server.diagnosis.framework_keys import KNOBS, SYSTEMS, Key
from longpole_server.diagnosis.layers import LAYERS
from longpole_server.diagnosis.proof import Advice, Rule
from longpole_server.diagnosis.rules import RULES
from longpole_server.diagnosis.thresholds import THRESHOLDS

_LABELS = {
    "verl": "verl",
    "slime": "slime",
    "openrlhf": "OpenRLHF",
    "trl": "TRL",
    "nemo_rl": "NeMo-RL",
    "areal": "AReaL",
    "skyrl": "SkyRL",
    "roll": "ROLL",
    "prime_rl": "prime-rl",
}
_INTRODUCTION = """\
# Verdicts and findings

What a diagnosis can say, what it takes to say it, and what to look at next. This page is made from
the rules by `python -m longpole_server.diagnosis.reference`; a test keeps it up to date.

A verdict needs its family to **dominate** (a share of the step of 0.40 or more, 0.05 above the
second; validation and checkpoints: half of the step's seconds), except `async.*`, which is tried
first where trainer and rollout hold GPUs of their own, and `balanced`, which is said when nothing
dominates. Confidence is `low` when only the shares say so, `medium` when an inner measurement
agrees, `high` when the other side is stable too; what nobody reports (preemptions) is not ruled out
and keeps it at `medium`. `balanced` rests on shares alone and is `low`. Every number can be
overridden by its name for a run, by the setting `longpole.threshold.<name>` among its configuration
(`longpole.init(config={"longpole.threshold.dominance.share": 0.5})`), and for a log by
`longpole diagnose FILE --threshold dominance.share=0.5`.

`recoverable_s_per_step` is an estimate with a range, whose bounds are derived as each verdict says,
and never more than the dominating family's own time; times the GPUs, over the loop's time, it is
GPU-hours a day.
"""


def write_reference() -> str:
    """Return the page."""
    parts = [_INTRODUCTION, "## Verdicts\n"]
    parts += ["\n".join(_describe_rule(rule)) for rule in RULES]
    parts.append(
        "### `balanced`\n\nNo family dominates. The largest two are named, each with its first "
        "next look.\n"
    )
    parts.append("## Findings\n\nAny number of them stand beside the verdict.\n")
    parts += ["\n".join(_describe_finding(kind)) for kind in FINDINGS]
    parts.append("\n".join(_list_layers()))
    parts.append("\n".join(_list_thresholds()))
    parts.append("\n".join(_list_knobs()))
    return "\n".join(parts).rstrip() + "\n"


def _describe_rule(rule: Rule) -> Iterator[str]:
    yield f"### `{rule.code}`\n"
    yield f"{_sentence(rule.title)}\n"
    yield f"- **Proof:** {rule.proof}"
    yield f"- **Reads:** {_join(rule.reads)}"
    if rule.thresholds:
        yield f"- **Thresholds:** {_codes(rule.thresholds)}"
    yield f"- **Heard, or named as not reported:** {_join_layers(rule.sources)}"
    yield f"- **Gives back:** {rule.recoverable}"
    yield "- **Next:**"
    for number, advice in enumerate(rule.next, start=1):
        yield f"  {number}. {_describe_advice(advice)}"
    yield ""


def _describe_advice(advice: Advice) -> str:
    text = advice.text
    if advice.pools == "shared":
        text += " (where trainer and rollout share GPUs)"
    elif advice.pools == "separate":
        text += " (where trainer and rollout hold GPUs of their own)"
    knobs = [f"[{knob}](#{_anchor(knob)})" for knob in advice.knobs]
    return text + (f" Keys: {', '.join(knobs)}." if knobs else "")


def _describe_finding(kind: FindingKind) -> Iterator[str]:
    yield f"### `{kind.code}`\n"
    yield f"{_sentence(kind.title)}\n"
    yield f"- **When:** {kind.proof}"
    yield f"- **Reads:** {_join(kind.reads)}"
    if kind.thresholds:
        yield f"- **Thresholds:** {_codes(kind.thresholds)}"
    yield ""


def _list_layers() -> Iterator[str]:
    yield "## Layers of evidence\n"
    yield (
        "A diagnosis names those that its verdict used (`sources.used`, with `scalars` for what "
        "the trainer logs) and those that could have spoken (`sources.not_reported`).\n"
    )
    yield "| layer | what it is |"
    yield "|---|---|"
    for name, what in LAYERS.items():
        yield f"| `{name}` | {what} |"
    yield ""


def _list_thresholds() -> Iterator[str]:
    yield "## Thresholds\n"
    yield "| name | default | unit | why | source |"
    yield "|---|---|---|---|---|"
    for limit in THRESHOLDS:
        yield (
            f"| `{limit.name}` | {limit.value:g} | {limit.unit} | {limit.reason} | {limit.source} |"
        )
    yield ""


def _list_knobs() -> Iterator[str]:
    yield "## Configuration keys by framework\n"
    yield (
        "Each key was looked up in the framework's own configuration. A diagnosis names those that "
        "exist in the run's version and mode, and none for a framework that is not listed.\n"
    )
    for knob, by_system in KNOBS.items():
        yield f"### {knob}\n"
        for system in SYSTEMS:
            keys = by_system.get(system, ())
            if keys:
                yield f"- {_LABELS[system]}: {', '.join(map(_describe_key, keys))}"
        yield ""


def _describe_key(key: Key) -> str:
    notes: list[str] = []
    if key.since:
        notes.append(f"since {'.'.join(map(str, key.since))}")
    if key.until is not None:
        notes.append(f"before {'.'.join(map(str, key.until))}")
    if key.modes:
        notes.append(f"mode {' or '.join(sorted(key.modes))}")
    return f"`{key.name}`" + (f" ({', '.join(notes)})" if notes else "")


def _anchor(knob: str) -> str:
    """Return the heading's anchor as GitHub makes it."""
    return knob.replace(".", "")


def _sentence(title: str) -> str:
    return f"{title[0].upper()}{title[1:]}."


def _join(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" if "/" in name or ":" in name else name for name in names)


def _join_layers(names: tuple[str, ...]) -> str:
    return ", ".join(f"[{name}](#layers-of-evidence)" for name in names)


def _codes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(write_reference())
