"""`longpole.comparison/1` as plain data, ready for JSON: what `GET /runs/{run}/compare` answers.

What belongs to the run of the path has the plain names, what belongs to the run it is compared
with has `with_` before them, as in the query. Not reported is None; no key is ever left out.
"""

import math
from collections.abc import Iterator

from longpole_server.diagnosis import finding_document
from longpole_server.model.comparison import (
    COMPARISON_SCHEMA,
    ComparedWindow,
    Comparison,
    ConfigDifference,
    Quantiles,
    SampleDistribution,
)
from longpole_server.model.decomposition import Decomposition, Part, WindowMeans

Document = dict[str, object]


def comparison_document(comparison: Comparison) -> Document:
    """Return the document.

    `decomposition[].log_change` adds up to `change.log_change`, without the parts of kind
    `outside` to `change.log_change_of_steps`.
    """
    decomposition = comparison.decomposition
    return {
        "schema": COMPARISON_SCHEMA,
        "run_id": comparison.after.run_id,
        "with_run_id": comparison.before.run_id,
        "window": _window(comparison.after, decomposition.after),
        "with_window": _window(comparison.before, decomposition.before),
        "change": _change(decomposition),
        "decomposition": [_part(part) for part in decomposition.parts],
        "stages": list(_stages(decomposition)),
        "distributions": [_distribution(each) for each in comparison.distributions],
        "config": [_config(difference) for difference in comparison.config],
        "findings": [finding_document(finding) for finding in comparison.findings],
        "remarks": [*decomposition.remarks, *comparison.remarks],
    }


def _window(window: ComparedWindow, means: WindowMeans) -> Document:
    return {
        "run_id": window.run_id,
        "name": window.run_name,
        "from": window.first_step,
        "to": window.last_step,
        "num_judged": window.num_judged,
        "excluded": [
            {"step": excluded.step, "reason": excluded.reason} for excluded in window.excluded
        ],
        "attempts": list(window.attempts),
        "verdict": window.verdict,
        "num_verdict": window.num_verdict,
        "tokens": means.tokens,
        "gpus": means.gpus,
        "step_s": means.step_s,
        "outside_s": means.outside_s,
        "throughput": means.throughput,
        "loop_throughput": means.loop_throughput,
    }


def _change(decomposition: Decomposition) -> Document:
    return {
        "quantity": decomposition.quantity,
        "log_change": decomposition.total,
        "factor": _factor(decomposition.total),
        "log_change_of_steps": decomposition.total_of_steps,
        "factor_of_steps": _factor(decomposition.total_of_steps),
        "reason": decomposition.reason,
    }


def _part(part: Part) -> Document:
    return {
        "kind": part.kind,
        "name": part.name,
        "unit": part.unit,
        "value": part.after,
        "with_value": part.before,
        "log_change": part.log_change,
        "factor": _factor(part.log_change),
        "reason": part.reason,
    }


def _stages(decomposition: Decomposition) -> Iterator[Document]:
    for part in decomposition.parts:
        if part.kind in ("stage", "unattributed", "outside"):
            duration_s, with_duration_s = part.after or 0.0, part.before or 0.0
            yield {
                "stage": part.name,
                "is_outside": part.kind == "outside",
                "duration_s": duration_s,
                "with_duration_s": with_duration_s,
                "change_s": duration_s - with_duration_s,
                "ratio_to_step": _ratio(duration_s, decomposition.after.step_s),
                "with_ratio_to_step": _ratio(with_duration_s, decomposition.before.step_s),
            }


def _distribution(distribution: SampleDistribution) -> Document:
    return {
        "metric": distribution.metric,
        "unit": distribution.unit,
        "value": _quantiles(distribution.after),
        "with_value": _quantiles(distribution.before),
    }


def _quantiles(quantiles: Quantiles) -> Document:
    return {
        "count": quantiles.count,
        "p50": quantiles.p50,
        "p90": quantiles.p90,
        "p99": quantiles.p99,
        "max": quantiles.max,
    }


def _config(difference: ConfigDifference) -> Document:
    return {
        "key": difference.key,
        "change": difference.change,
        "value": difference.after,
        "with_value": difference.before,
    }


def _factor(log_change: float | None) -> float | None:
    try:
        return None if log_change is None else math.exp(log_change)
    except OverflowError:
        return None


def _ratio(duration_s: float, step_s: float | None) -> float | None:
    return duration_s / step_s if step_s else None
