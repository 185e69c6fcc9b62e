"""`longpole.diagnosis/1`, checked strictly: every key, type, closed vocabulary and sum."""

import json
import math
from collections.abc import Mapping
from typing import Any

from longpole.conventions import attributes, stages

# The closed list of verdicts.
VERDICTS = frozenset(
    [
        "rollout.preemption",
        "rollout.tool",
        "rollout.reward",
        "rollout.truncation",
        "rollout.imbalance",
        "rollout.long_tail",
        "rollout.engine",
        "rollout.unexplained",
        "reward",
        "logprob",
        "update.compute",
        "update.inefficient",
        "update.imbalance",
        "update.unknown",
        "update.critic",
        "sync.weights",
        "sync.sleep_wake",
        "overhead.unattributed",
        "overhead.outside",
        "async.trainer_starved",
        "async.rollout_starved",
        "async.serial",
        "balanced",
    ]
)
CONFIDENCES = frozenset({"high", "medium", "low"})
SEVERITIES = frozenset({"info", "warning", "critical"})
KINDS = frozenset({"threshold", "baseline", "peer", "share"})
STAGES = frozenset(stages.STAGES) | {stages.UNATTRIBUTED}
KEYS = [
    "schema",
    "run",
    "window",
    "verdict",
    "cause",
    "confidence",
    "summary",
    "recoverable_s_per_step",
    "recoverable_s_per_step_range",
    "recoverable_gpu_hours_per_day",
    "recoverable_formula",
    "step_s",
    "shares",
    "outside",
    "throughput",
    "mfu",
    "evidence",
    "sources",
    "findings",
    "next",
    "data_quality",
    "annotations",
    "decomposition",
    "steps",
]


def check_document(text: str) -> dict[str, Any]:
    """Return the parsed document after checking all of it. Raises AssertionError."""
    document = json.loads(text, parse_constant=_refuse_constant)
    assert list(document) == KEYS
    assert document["schema"] == "longpole.diagnosis/1"
    _check_run(document)
    _check_window(document)
    _check_verdict(document)
    if document["window"]["num_judged"]:
        _check_shares(document["shares"])
    for stage, outside in document["outside"].items():
        assert stage in STAGES
        _check_numbers(outside, {"duration_s", "ratio_to_step"}, least=0)
    _check_figures(document)
    for row in document["evidence"]:
        _check_evidence(row)
    for finding in document["findings"]:
        _check_finding(finding)
    for look in document["next"]:
        assert set(look) == {"text", "keys"}
        assert look["text"]
        assert all(isinstance(key, str) and " " not in key for key in look["keys"])
    for note in document["data_quality"]:
        _check_note(note)
    for change in document["annotations"]:
        _check_change(change, document["window"])
    for step in document["steps"]:
        _check_step(step, document["window"])
    assert len(document["steps"]) == document["window"]["num_judged"]
    return document


def _refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def _check_run(document: Mapping[str, Any]) -> None:
    run = document["run"]
    assert set(run) == {"run_id", "name", "system", "mode"}
    assert isinstance(run["run_id"], str)
    assert isinstance(run["name"], str)
    assert run["system"] is None or isinstance(run["system"], str)
    assert run["mode"] is None or run["mode"] in attributes.MODES


def _check_window(document: Mapping[str, Any]) -> None:
    window = document["window"]
    assert set(window) == {"from", "to", "num_judged", "excluded"}
    assert type(window["num_judged"]) is int
    if window["from"] is not None:
        assert type(window["from"]) is int
        assert type(window["to"]) is int
        assert window["from"] <= window["to"]
    for excluded in window["excluded"]:
        assert set(excluded) == {"step", "reason"}
        assert type(excluded["step"]) is int
        assert excluded["reason"]


def _check_verdict(document: Mapping[str, Any]) -> None:
    verdict, cause = document["verdict"], document["cause"]
    assert document["summary"]
    assert document["summary"] == document["summary"].strip()
    for name in ("recoverable_s_per_step", "recoverable_gpu_hours_per_day"):
        assert document[name] is None or _is_number(document[name])
        assert document[name] is None or document[name] >= 0
    if not document["window"]["num_judged"]:
        assert verdict is cause is document["confidence"] is None
        return
    assert verdict in VERDICTS
    assert document["confidence"] in CONFIDENCES
    assert cause is None or (cause in VERDICTS and verdict.startswith("async."))


def _check_shares(shares: Mapping[str, float]) -> None:
    assert stages.UNATTRIBUTED in shares
    assert set(shares) <= STAGES
    assert all(_is_number(share) and 0 <= share <= 1 for share in shares.values())
    assert abs(math.fsum(shares.values()) - 1) < 1e-6


def _check_figures(document: Mapping[str, Any]) -> None:
    throughput = document["throughput"]
    assert set(throughput) == {"tokens_per_s_per_gpu", "tokens", "step_s", "gpus", "baseline"}
    assert throughput["gpus"] is None or type(throughput["gpus"]) is int
    assert all(value is None or _is_number(value) for value in throughput.values())
    assert set(document["mfu"]) == {"actor", "actor_stage", "infer", "step"}
    for figure in document["mfu"].values():
        assert set(figure) == {"value", "source", "reason"}
        if figure["value"] is None:
            assert figure["source"] is None
            assert figure["reason"]
        else:
            assert 0 < figure["value"] <= 1
            assert figure["source"] in {"reported", "computed"}
            assert figure["reason"] is None


def _check_evidence(row: Mapping[str, Any]) -> None:
    names = {"metric", "value", "unit", "compared_with", "effect", "layer", "source"}
    assert set(row) == names
    assert _is_number(row["value"])
    for name in ("metric", "unit", "source"):
        assert isinstance(row[name], str)
        assert row[name]
    assert row["effect"] in {"supports", "contradicts"}
    assert row["layer"] in {"outer", "inner", "other_side"}
    reference = row["compared_with"]
    if reference is not None:
        assert set(reference) == {"kind", "value"}
        assert reference["kind"] in KINDS
        assert _is_number(reference["value"])


def _check_finding(finding: Mapping[str, Any]) -> None:
    assert set(finding) == {"code", "severity", "entity", "from", "to", "summary", "evidence"}
    assert finding["code"]
    assert finding["severity"] in SEVERITIES
    assert finding["from"] <= finding["to"]
    if finding["entity"] is not None:
        assert set(finding["entity"]) == {"kind", "id"}
    for row in finding["evidence"]:
        _check_evidence(row)


def _check_note(note: Mapping[str, Any]) -> None:
    assert set(note) == {"code", "severity", "summary", "metric", "from", "to"}
    assert note["code"]
    assert note["severity"] in SEVERITIES
    assert note["summary"]
    assert (note["from"] is None) == (note["to"] is None)


def _check_change(change: Mapping[str, Any], window: Mapping[str, Any]) -> None:
    assert set(change) == {"kind", "step", "verdict", "previous"}
    assert change["kind"] == "verdict"
    assert window["from"] <= change["step"] <= window["to"]
    assert change["verdict"] in VERDICTS
    assert change["previous"] is None or change["previous"] in VERDICTS
    assert change["previous"] != change["verdict"]


def _check_step(step: Mapping[str, Any], window: Mapping[str, Any]) -> None:
    assert set(step) == {"step", "duration_s", "verdict", "confidence", "shares"}
    assert window["from"] <= step["step"] <= window["to"]
    assert step["duration_s"] > 0
    assert step["verdict"] in VERDICTS
    assert step["confidence"] in CONFIDENCES
    _check_shares(step["shares"])


def _check_numbers(values: Mapping[str, Any], names: set[str], least: float) -> None:
    assert set(values) == names
    assert all(_is_number(value) and value >= least for value in values.values())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
