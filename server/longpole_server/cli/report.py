"""Prints a `longpole.diagnosis/1` document for people who sit at a terminal."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

WIDTH = 100
_BAR_WIDTH = 30
_BAR, _PLAIN_BAR = "█", "#"
# Rows beyond this many are left to --json.
_MAX_ROWS = 12
# Told beside the figure itself.
_IN_FIGURES = "mfu.unknown"
# What evidence is compared with, in words.
_COMPARED = {"threshold": "limit", "baseline": "usual", "peer": "peer", "share": "second"}


def render_report(document: Document, encoding: str = "utf-8") -> str:
    """Return the report: verdict, ledger, figures, evidence, next looks, notes.

    Args:
        document: The diagnosis.
        encoding: What the terminal can show; other characters are replaced.
    """
    sections = (
        _head(document),
        _verdict(document),
        _ledger(document, _BAR if _can_show(_BAR, encoding) else _PLAIN_BAR),
        _figures(document),
        _evidence(document["evidence"]),
        _findings(document["findings"]),
        _next_looks(document["next"]),
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


def _head(document: Document) -> Iterator[str]:
    run, window = document["run"], document["window"]
    gpus = document["throughput"]["gpus"]
    facts = [run["system"], run["mode"], None if gpus is None else _plural(gpus, "GPU")]
    yield f"{run['name']}: " + ", ".join(str(fact) for fact in facts if fact)
    if window["from"] is None:
        return
    judged = f"steps {window['from']} to {window['to']}, {window['num_judged']} of them judged"
    left_out: dict[str, list[int]] = {}
    for excluded in window["excluded"]:
        left_out.setdefault(excluded["reason"], []).append(excluded["step"])
    for reason, steps in left_out.items():
        judged += f"; left out {_steps(steps)} ({reason})"
    yield from _wrap(judged)


def _verdict(document: Document) -> Iterator[str]:
    code, cause, confidence = (document[name] for name in ("verdict", "cause", "confidence"))
    line = f"VERDICT  {code or 'none'}"
    if cause:
        line += f", because of {cause}"
    yield line + (f"  (confidence: {confidence})" if confidence else "")
    yield from _wrap(document["summary"])
    hours = document["recoverable_gpu_hours_per_day"]
    if hours:
        yield f"That is about {_digits(hours)} GPU-hours a day, as an estimate."
    verdicts = Counter(step["verdict"] for step in document["steps"])
    total = verdicts.total()
    if code is None or total < 2:
        return
    if verdicts[code] == total:
        yield f"Each of the {total} steps alone says the same."
    else:
        others = ", ".join(f"{other} {count}" for other, count in verdicts.items() if other != code)
        yield f"Of {total} steps alone, {verdicts[code]} say the same (others: {others})."


def _ledger(document: Document, bar: str) -> Iterator[str]:
    step_s = document["throughput"]["step_s"]
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
    yield "Evidence"
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


def _findings(findings: Sequence[Document]) -> Iterator[str]:
    shown = [finding for finding in findings if finding["code"] != _IN_FIGURES]
    if shown:
        yield "Also seen"
    for finding in shown:
        yield from _wrap(finding["summary"], f"  {finding['severity']:<8} {finding['code']}: ")


def _next_looks(looks: Sequence[Document]) -> Iterator[str]:
    if looks:
        yield "Look at next"
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
