"""Prints a `longpole.diagnosis/1` document for people who sit at a terminal."""

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longpole_server.diagnosis.layers import LAYERS
from longpole_server.diagnosis.rules import BALANCED

Document = Mapping[str, Any]

WIDTH = 100
_BAR_WIDTH = 30
_BAR, _PLAIN_BAR = "█", "#"
# Rows beyond this many are left to --json.
_MAX_ROWS = 12
# Told beside the figure itself.
_IN_FIGURES = "mfu.unknown"
# Parts of a change of throughput that are shown, and the least that is worth a line.
_MAX_PARTS = 6
_LEAST_PART = 0.002
_LEAST_CHANGE = 0.02
_CONFIDENCE = {
    "high": "shares and an inner measurement agree, and nothing else got slower",
    "medium": "shares and an inner measurement agree",
    "low": "the shares of the step alone say so; nothing inside is measured that agrees",
}
# Where no family dominates there is nothing inside to agree.
_CONFIDENCE_OF_BALANCE = {
    "low": "shares alone say so, and where none dominates nothing inside could agree",
}
# What evidence is compared with, in words.
_COMPARED = {"threshold": "limit", "baseline": "usual", "peer": "peer", "share": "second"}


def render_report(document: Document, encoding: str = "utf-8") -> str:
    """Return the report: the answer, its proof, what to try first, what is not known, the rest.

    Args:
        document: The diagnosis.
        encoding: What the terminal can show; other characters are replaced.
    """
    bar = _BAR if _can_show(_BAR, encoding) else _PLAIN_BAR
    sections = (
        _verdict(document),
        _evidence(document["evidence"]),
        _next_looks(document["next"]),
        _unknown(document),
        _ledger(document, bar),
        _figures(document),
        _change(document.get("decomposition")),
        _findings(document["findings"]),
        _notes(document),
    )
    text = "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))
    return text.encode(encoding, errors="replace").decode(encoding)


def _can_show(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _head(document: Document) -> str:
    run, window = document["run"], document["window"]
    gpus = document["throughput"]["gpus"]
    facts = [run["system"], run["mode"], None if gpus is None else _plural(gpus, "GPU")]
    named = ", ".join(str(fact) for fact in facts if fact)
    head = f"{run['name']}: {named}" if named else str(run["name"])
    if window["from"] is None:
        return head
    head += f"; steps {window['from']} to {window['to']}, {window['num_judged']} of them judged"
    left_out: dict[str, list[int]] = {}
    for excluded in window["excluded"]:
        left_out.setdefault(excluded["reason"], []).append(excluded["step"])
    for reason, steps in left_out.items():
        head += f"; left out {_steps(steps)} ({reason})"
    return head


def _verdict(document: Document) -> Iterator[str]:
    code, cause, confidence = (document[name] for name in ("verdict", "cause", "confidence"))
    yield from _wrap(document["summary"])
    yield ""
    line = f"VERDICT  {code or 'none'}"
    if cause:
        line += f", because of {cause}"
    yield line
    if confidence:
        words = _CONFIDENCE | (_CONFIDENCE_OF_BALANCE if code == BALANCED else {})
        yield from _wrap(f"{confidence}: {words[confidence]}", "Sure     ")
    if code is not None:
        yield from _wrap(_gain(document), "Gain     ")
    yield from _wrap(_head(document), "Run      ")
    verdicts = Counter(step["verdict"] for step in document["steps"])
    total = verdicts.total()
    if code is not None and total > 1:
        yield from _wrap(_count_verdicts(code, verdicts), "Steps    ")
    for change in document["annotations"]:
        if change["previous"] is not None:
            yield from _wrap(
                f"from step {change['step']} on {change['verdict']}, before {change['previous']}",
                "Change   ",
            )


def _gain(document: Document) -> str:
    seconds = document["recoverable_s_per_step"]
    formula = document["recoverable_formula"]
    if seconds is None:
        return formula or "not estimated"
    low, high = document["recoverable_s_per_step_range"] or (seconds, seconds)
    if high <= 0 and formula:
        return formula
    text = f"about {_seconds(seconds, high)} a step"
    if low < high:
        text += f" ({_seconds(low, high)} to {_seconds(high, high)})"
    hours = document["recoverable_gpu_hours_per_day"]
    if hours:
        text += f", {_digits(hours)} GPU-hours a day"
    return f"{text}, as an estimate: {formula}" if formula else f"{text}, as an estimate"


def _count_verdicts(code: str, verdicts: Counter[str | None]) -> str:
    total = verdicts.total()
    if verdicts[code] == total:
        return f"Each of the {total} steps alone says the same."
    others = ", ".join(f"{other} {count}" for other, count in verdicts.items() if other != code)
    return f"Of {total} steps alone, {verdicts[code]} say the same (others: {others})."


def _ledger(document: Document, bar: str) -> Iterator[str]:
    # The window's own step, in which a single outlier is drawn in as it is in the shares; older
    # servers do not tell it.
    step_s = document.get("step_s") or document["throughput"]["step_s"]
    shares = {stage: share for stage, share in document["shares"].items() if share is not None}
    if not shares or step_s is None:
        return
    yield f"Where the {_seconds(step_s, step_s)} of a step go"
    for stage, share in sorted(shares.items(), key=lambda item: _last("unattributed", item)):
        yield (
            f"  {stage:<16} {_seconds(share * step_s, step_s):>10} {share:8.1%}  "
            f"{bar * round(share * _BAR_WIDTH)}"
        ).rstrip()
    for stage, outside in document["outside"].items():
        duration_s, ratio = outside["duration_s"], outside["ratio_to_step"]
        yield (
            f"  {stage:<16} {_seconds(duration_s, step_s):>10} {ratio:8.1%}  "
            "on top of it, between steps"
        )


def _last(name: str, item: tuple[str, float]) -> tuple[bool, float]:
    return item[0] == name, -item[1]


def _figures(document: Document) -> Iterator[str]:
    rate = document["throughput"]["tokens_per_s_per_gpu"]
    usual = document["throughput"]["baseline"]
    line = "Throughput  " + ("not reported" if rate is None else f"{_digits(rate)} tokens/s/GPU")
    yield line + (f" (usual: {_digits(usual)})" if usual is not None else "")
    known: list[str] = []
    unknown: dict[str, list[str]] = {}
    for name, mfu in document["mfu"].items():
        if mfu["value"] is not None:
            known.append(f"{_percent(mfu['value'])} {name} ({mfu['source']})")
        else:
            unknown.setdefault(mfu["reason"] or "not reported", []).append(name)
    missing = [f"{' and '.join(names)} ({reason})" for reason, names in unknown.items()]
    label = "MFU         "
    if known:
        yield from _wrap(", ".join(known), label)
        label = " " * len(label)
    if missing:
        yield from _wrap(f"unknown for {', '.join(missing)}", label)


def _evidence(rows: Sequence[Document]) -> Iterator[str]:
    if not rows:
        return
    yield "Proof"
    table = [_evidence_cells(row) for row in rows[:_MAX_ROWS]]
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for effect, metric, value, compared, origin in table:
        yield (
            f"  {effect:<{widths[0]}}  {metric:<{widths[1]}}  {value:>{widths[2]}}  "
            f"{compared:<{widths[3]}}  {origin}"
        ).rstrip()
    if len(rows) > _MAX_ROWS:
        yield f"  and {len(rows) - _MAX_ROWS} more with --json"


def _evidence_cells(row: Document) -> tuple[str, str, str, str, str]:
    reference = row["compared_with"]
    compared = ""
    if reference is not None:
        word = _COMPARED.get(reference["kind"], reference["kind"])
        # A long unit stands beside it already.
        long_unit = "" if row["unit"] == "s" else f" {row['unit']}"
        compared = f"{word} {_value(reference['value'], row).removesuffix(long_unit)}"
    origin = f"{row['layer']}, {row['source']}".replace("_", " ")
    return row["effect"], row["metric"], _value(row["value"], row), compared, origin


def _unknown(document: Document) -> Iterator[str]:
    """Say which layers could have spoken for or against the verdict, and what would show them."""
    silent = document["sources"]["not_reported"]
    if silent:
        yield "Not known, and what would show it"
    for layer in silent:
        # A server may know layers that this program does not.
        yield from _wrap(LAYERS.get(layer, "not reported"), f"  {layer.replace('_', ' ')}: ")


def _change(change: Document | None) -> Iterator[str]:
    """Say what made the later half faster or slower, the largest parts first."""
    if change is None or change["log_change"] is None:
        return
    total = change["log_change"]
    if abs(total) < _LEAST_CHANGE:
        return
    before, after = change["before"], change["after"]
    yield from _wrap(
        f"Throughput of steps {after['from']} to {after['to']} against {before['from']} to "
        f"{before['to']}: {_times(total)}; its parts multiply to it"
    )
    known = [part for part in change["parts"] if abs(part["log_change"] or 0.0) >= _LEAST_PART]
    for part in sorted(known, key=lambda part: -abs(part["log_change"]))[:_MAX_PARTS]:
        name = f"{part['name']}, between steps" if part["kind"] == "outside" else part["name"]
        amounts = " to ".join(_amount(part[side], part["unit"]) for side in ("before", "after"))
        yield f"  {name:<16} {_times(part['log_change']):>8}  {amounts}"


def _times(log_change: float) -> str:
    return f"x {math.exp(min(log_change, 700.0)):.3f}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return _seconds(value, value)
    return _digits(value) if unit == "1" else f"{_digits(value)} {unit}"


def _findings(findings: Sequence[Document]) -> Iterator[str]:
    shown = [finding for finding in findings if finding["code"] != _IN_FIGURES]
    if shown:
        yield "Also seen"
    for finding in shown:
        yield from _wrap(finding["summary"], f"  {finding['severity']:<8} {finding['code']}: ")


def _next_looks(looks: Sequence[Document]) -> Iterator[str]:
    if looks:
        yield "Try first"
    for number, look in enumerate(looks, start=1):
        yield from _wrap(look["text"], f"  {number}. ")
        yield from (f"       {key}" for key in look["keys"])


def _notes(document: Document) -> Iterator[str]:
    told = {_IN_FIGURES, *(finding["code"] for finding in document["findings"])}
    notes = [note for note in document["data_quality"] if note["code"] not in told]
    if notes:
        yield "About the data"
    for note in notes:
        yield from _wrap(note["summary"], f"  {note['severity']:<8} {note['code']}: ")


def _wrap(text: str, first: str = "") -> list[str]:
    """Break text at the report's width; later lines are indented below the first's own text."""
    indent = " " * min(len(first), 12)
    return textwrap.wrap(
        first + text,
        WIDTH,
        subsequent_indent=indent,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _steps(steps: Sequence[int]) -> str:
    shown = ", ".join(str(step) for step in steps[:3])
    if len(steps) == 1:
        return f"step {shown}"
    return f"steps {shown}" + (f" and {len(steps) - 3} more" if len(steps) > 3 else "")


def _plural(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _value(value: float, row: Document) -> str:
    metric, unit = row["metric"], row["unit"]
    if unit == "s":
        return _seconds(value, value)
    if unit != "1":
        return f"{_digits(value)} {unit}"
    is_part = metric.startswith("share/") or metric.endswith("_ratio") or "mfu" in metric
    return _percent(value) if is_part else _digits(value)


def _seconds(value: float, scale: float) -> str:
    """Return seconds with the digits that matter in a column whose largest value is `scale`."""
    digits = 1 if scale >= 20 else 2 if scale >= 2 else 3
    return f"{value:.{digits}f} s"


def _percent(ratio: float) -> str:
    return f"{ratio * 100:.1f} %"


def _digits(value: float) -> str:
    """Return a number with three digits, in full where it is large."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
