"""How the samples of many steps are distributed, computed where they are stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole_server.model.comparison import Quantiles, SampleMetric
from longpole_server.model.records import UNKNOWN_STEP
from longpole_server.read.pool import ClientPool, make_records

# Up to so many samples quantiles are exact; beyond, a digest of bounded size answers, whose error
# is a small part of a percentile.
MAX_EXACT_SAMPLES = 1_000_000

# A sample of unknown step belongs to the step whose window holds its end.
_SAMPLES = """
FROM trajectories FINAL
WHERE run_id = {run_id:String} AND phase = 'train' AND (
    (attempt, step) IN {steps:Array(Tuple(Int64, Int64))}
    OR (
        step = {unknown:Int64}
        AND arrayExists(
            window -> window.1 = attempt
                AND toUnixTimestamp64Nano(end_ns) > window.2
                AND toUnixTimestamp64Nano(end_ns) <= window.3,
            {windows:Array(Tuple(Int64, Int64, Int64))}
        )
    )
)
"""
_DURATION_S = "(toUnixTimestamp64Nano(end_ns) - toUnixTimestamp64Nano(start_ns)) / 1e9"
_COLUMNS: Mapping[SampleMetric, str] = {
    "duration_s": _DURATION_S,
    "output_tokens": "output_tokens",
}
_COUNT = f"SELECT count() AS num {_SAMPLES}"


@dataclass(frozen=True, slots=True)
class StepWindow:
    """A step whose samples are asked for. It holds what ends after `start_ns`, up to `end_ns`."""

    attempt: int
    step: int
    start_ns: int
    end_ns: int


def get_quantiles(
    pool: ClientPool, run_id: str, steps: Sequence[StepWindow], max_exact: int = MAX_EXACT_SAMPLES
) -> Mapping[SampleMetric, Quantiles]:
    """Return how the training samples of some steps are distributed, all taken together.

    Args:
        pool: Where to ask.
        run_id: The run.
        steps: The steps.
        max_exact: Samples from which on quantiles are estimated.
    """
    if not steps:
        return dict.fromkeys(_COLUMNS, Quantiles(0, None, None, None, None))
    parameters = {
        "run_id": run_id,
        "unknown": UNKNOWN_STEP,
        "steps": [(step.attempt, step.step) for step in steps],
        "windows": [(step.attempt, step.start_ns, step.end_ns) for step in steps],
    }
    num_samples = make_records(pool.query(_COUNT, parameters))[0]["num"]
    sql = _make_query("quantilesExactInclusive" if num_samples <= max_exact else "quantilesTDigest")
    row = make_records(pool.query(sql, parameters))[0]
    return {
        metric: _read(row[f"{metric}_count"], row[f"{metric}_max"], row[f"{metric}_quantiles"])
        for metric in _COLUMNS
    }


def _make_query(function: str) -> str:
    figures = ", ".join(
        f"count({column}) AS {metric}_count, toFloat64(max({column})) AS {metric}_max, "
        f"{function}(0.5, 0.9, 0.99)({column}) AS {metric}_quantiles"
        for metric, column in _COLUMNS.items()
    )
    return f"SELECT {figures} {_SAMPLES}"


def _read(count: int, highest: float | None, quantiles: Sequence[float | None]) -> Quantiles:
    if not count or len(quantiles) != 3:
        return Quantiles(0, None, None, None, None)
    p50, p90, p99 = quantiles
    return Quantiles(count, p50, p90, p99, highest)
