"""`longpole.diagnosis/1` as plain data, ready for JSON."""

from collections.abc import Mapping

from longpole.conventions import stages
from longpole_server.model.annotations import VerdictChange
from longpole_server.model.diagnosis import (
    SCHEMA,
    Diagnosis,
    Evidence,
    Finding,
    Mfu,
    Outside,
    StepVerdict,
    Throughput,
    WindowChange,
)
from longpole_server.model.step import Note

Document = dict[str, object]


def diagnosis_document(diagnosis: Diagnosis) -> Document:
    """Return the document. Not reported is None; no key is ever left out."""
    return {
        "schema": SCHEMA,
        "run": {
            "run_id": diagnosis.run_id,
            "name": diagnosis.run_name,
            "system": diagnosis.system,
            "mode": diagnosis.mode,
        },
        "window": {
            "from": diagnosis.first_step,
            "to": diagnosis.last_step,
            "num_judged": diagnosis.num_judged,
            "excluded": [
                {"step": excluded.step, "reason": excluded.reason}
                for excluded in diagnosis.excluded
            ],
        },
        "verdict": diagnosis.verdict,
        "cause": diagnosis.cause,
        "confidence": diagnosis.confidence,
        "summary": diagnosis.summary,
        "recoverable_s_per_step": diagnosis.recoverable_s_per_step,
        "recoverable_s_per_step_range": _range(diagnosis.recoverable_s_per_step_range),
        "recoverable_gpu_hours_per_day": diagnosis.recoverable_gpu_hours_per_day,
        "recoverable_formula": diagnosis.recoverable_formula,
        "step_s": diagnosis.step_s,
        "shares": _shares(diagnosis.shares),
        "outside": {stage: _outside(outside) for stage, outside in diagnosis.outside.items()},
        "throughput": _throughput(diagnosis.throughput),
        "mfu": {name: _mfu(figure) for name, figure in diagnosis.mfu.items()},
        "evidence": [_evidence(row) for row in diagnosis.evidence],
        "sources": {
            "used": list(diagnosis.sources.used),
            "not_reported": list(diagnosis.sources.not_reported),
        },
        "findings": [finding_document(finding) for finding in diagnosis.findings],
        "next": [{"text": look.text, "keys": list(look.keys)} for look in diagnosis.next],
        "data_quality": [_note(note) for note in diagnosis.data_quality],
        "annotations": [_change(change) for change in diagnosis.annotations],
        "decomposition": _decomposition(diagnosis.decomposition),
        "steps": [_step(verdict) for verdict in diagnosis.steps],
    }


def _shares(shares: Mapping[str, float]) -> Mapping[str, float | None]:
    # Not copied without need: a long run has thousands of them.
    return shares if stages.UNATTRIBUTED in shares else {**shares, stages.UNATTRIBUTED: None}


def _range(bounds: tuple[float, float] | None) -> list[float] | None:
    return None if bounds is None else list(bounds)


def _outside(outside: Outside) -> Document:
    return {"duration_s": outside.duration_s, "ratio_to_step": outside.ratio_to_step}


def _throughput(throughput: Throughput) -> Document:
    return {
        "tokens_per_s_per_gpu": throughput.tokens_per_s_per_gpu,
        "tokens": throughput.tokens,
        "step_s": throughput.step_s,
        "gpus": throughput.gpus,
        "baseline": throughput.baseline,
    }


def _mfu(figure: Mfu) -> Document:
    return {"value": figure.value, "source": figure.source, "reason": figure.reason}


def _evidence(row: Evidence) -> Document:
    reference = row.compared_with
    return {
        "metric": row.metric,
        "value": row.value,
        "unit": row.unit,
        "compared_with": None
        if reference is None
        else {"kind": reference.kind, "value": reference.value},
        "effect": row.effect,
        "layer": row.layer,
        "source": row.source,
    }


def finding_document(finding: Finding) -> Document:
    """Return a finding as it stands in documents."""
    entity = finding.entity
    return {
        "code": finding.code,
        "severity": finding.severity,
        "entity": None if entity is None else {"kind": entity.kind, "id": entity.id},
        "from": finding.first_step,
        "to": finding.last_step,
        "summary": finding.summary,
        "evidence": [_evidence(row) for row in finding.evidence],
    }


def _note(note: Note) -> Document:
    return {
        "code": note.code,
        "severity": note.severity,
        "summary": note.summary,
        "metric": note.metric,
        "from": note.first_step,
        "to": note.last_step,
    }


def _change(change: VerdictChange) -> Document:
    return {
        "kind": "verdict",
        "step": change.step,
        "verdict": change.verdict,
        "previous": change.previous,
    }


def _decomposition(change: WindowChange | None) -> Document | None:
    """Return the change from the earlier half to the later one, the parts adding up to it."""
    if change is None:
        return None
    found = change.decomposition
    return {
        "quantity": found.quantity,
        "before": {"from": change.before[0], "to": change.before[1]},
        "after": {"from": change.after[0], "to": change.after[1]},
        "log_change": found.total,
        "parts": [
            {
                "kind": part.kind,
                "name": part.name,
                "unit": part.unit,
                "before": part.before,
                "after": part.after,
                "log_change": part.log_change,
                "reason": part.reason,
            }
            for part in found.parts
        ],
    }


def _step(verdict: StepVerdict) -> Document:
    return {
        "step": verdict.step,
        "duration_s": verdict.duration_s,
        "verdict": verdict.verdict,
        "confidence": verdict.confidence,
        "shares": _shares(verdict.shares),
    }
