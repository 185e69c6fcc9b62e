"""Prints a `longpole.diagnosis/1` document for people who sit at a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]

_BAR_WIDTH = 30
# Evidence rows beyond this many are left to --json.
_MAX_ROWS = 12


def render_report(document: Document) -> str:
    """Return the report: verdict, ledger, figures, evidence, next looks, notes."""
    sections = (
        _head(document),
        _ledger(document),
        _figures(document),
        _evidence(document["evidence"]),
        _findings(document["findings"]),
        _next_looks(document["next"]),
        _notes(document["data_quality"]),
    )
    return "\n\n".join("\n".join(lines) for section in sections if (lines := list(section)))


def _head(document: Document) -> Iterator[str]:
    run, window = document["run"], document["window"]
    facts = [run["system"], run["mode"], _count(document["throughput"]["gpus"], "GPU")]
    yield f"{run['name']}: " + ", ".join(str(fact) for fact in facts if fact)
    if window["num_judged"]:
        judged = f"steps {window['from']} to {window['to']}, {window['num_judged']} judged"
        for excluded in window["excluded"][:3]:
            judged += f"; {excluded['step']} left out: {excluded['reason']}"
        yield judged
    yield ""
    confidence = f", confidence {document['confidence']}" if document["confidence"] else ""
    yield f"verdict  {document['verdict'] or 'none'}{confidence}"
    yield document["summary"]
    hours = document["recoverable_gpu_hours_per_day"]
    if hours is not None:
        yield f"that is about {hours:.0f} GPU-hours a day (an estimate)"


def _ledger(document: Document) -> Iterator[str]:
    step_s = document["throughput"]["step_s"]
    shares: Mapping[str, float] = document["shares"]
    if not shares or step_s is None:
        return
    yield f"where a step's {step_s:.1f} s go"
    ordered = sorted(shares.items(), key=lambda item: (item[0] == "unattributed", -item[1]))
    for stage, share in ordered:
        bar = "█" * round(share * _BAR_WIDTH)
        yield f"  {stage:<16} {share * step_s:9.1f} s {share:7.1%}  {bar}".rstrip()
    for stage, outside in document["outside"].items():
        duration_s, ratio = outside["duration_s"], outside["ratio_to_step"]
        yield f"  {stage:<16} {duration_s:9.1f} s {ratio:7.1%}  between steps, per step"


def _figures(document: Document) -> Iterator[str]:
    throughput = document["throughput"]
    value = throughput["tokens_per_s_per_gpu"]
    yield "throughput  " + (f"{value:.0f} tokens/s/GPU" if value is not None else "not reported")
    for name, mfu in document["mfu"].items():
        if mfu["value"] is not None:
            yield f"MFU {name:<12} {mfu['value']:.3f} ({mfu['source']})"
        else:
            yield f"MFU {name:<12} unknown: {mfu['reason'] or 'not reported'}"


def _evidence(rows: Sequence[Document]) -> Iterator[str]:
    if not rows:
        return
    yield "evidence"
    for row in rows[:_MAX_ROWS]:
        yield "  " + _evidence_row(row)


def _evidence_row(row: Document) -> str:
    reference = row["compared_with"]
    compared = f"{reference['kind']} {_number(reference['value'])}" if reference else ""
    value = f"{_number(row['value'])} {row['unit'] if row['unit'] != '1' else ''}".strip()
    return (
        f"{row['effect']:<12} {row['metric']:<42} {value:<16} {compared:<18} "
        f"{row['layer']}, {row['source']}"
    )


def _findings(findings: Sequence[Document]) -> Iterator[str]:
    if not findings:
        return
    yield "also seen"
    for finding in findings:
        yield f"  {finding['severity']:<8} {finding['code']}: {finding['summary']}"


def _next_looks(looks: Sequence[Document]) -> Iterator[str]:
    if not looks:
        return
    yield "look at next"
    for number, look in enumerate(looks, start=1):
        keys = f"  [{', '.join(look['keys'])}]" if look["keys"] else ""
        yield f"  {number}. {look['text']}{keys}"


def _notes(notes: Sequence[Document]) -> Iterator[str]:
    if not notes:
        return
    yield "about the data"
    for note in notes:
        yield f"  {note['severity']:<8} {note['code']}: {note['summary']}"


def _count(number: int | None, unit: str) -> str | None:
    return None if number is None else f"{number} {unit}{'' if number == 1 else 's'}"


def _number(value: float) -> str:
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}" if abs(value) < 1e6 else f"{value:,.0f}"
