"""Series of rollout engines over a time range, binned in the database."""

from collections.abc import Sequence
from dataclasses import dataclass

from longpole_server.read.pool import ClientPool, make_rows

# A counter that falls was reset: what it shows then has come since. The sample before a series'
# first one is not known, so that the first one adds nothing. Of samples before the range only the
# counters' state is wanted.
_BINS = """
SELECT
    replica,
    series,
    intDiv(toUnixTimestamp64Nano(ts_ns) - {start_ns:Int64}, {bin_ns:Int64}) AS bin,
    avg(value),
    max(value),
    sum(increase)
FROM (
    SELECT
        replica,
        extract(name, '^[^{]+') AS series,
        ts_ns,
        value,
        if(
            row_number() OVER series_in_time = 1,
            0,
            if(value >= before, value - before, value)
        ) AS increase,
        lagInFrame(value, 1, value) OVER series_in_time AS before
    FROM engine_samples FINAL
    WHERE run_id = {run_id:String} AND attempt = {attempt:Int64}
      AND extract(name, '^[^{]+') IN {names:Array(String)}
      AND ts_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
      AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
    WINDOW series_in_time AS (
        PARTITION BY replica, name ORDER BY ts_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )
)
WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
GROUP BY replica, series, bin
ORDER BY replica, series, bin
"""
# How far back the state of a counter before the range is looked for.
_LOOK_BACK_NS = 120 * 10**9


_ANY = """
SELECT 1 FROM engine_samples WHERE run_id = {run_id:String} AND attempt = {attempt:Int64} LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class EngineBin:
    """One series of one replica in one bin.

    Attributes:
        name: Prometheus name, without labels.
        mean, largest: Of a gauge; over all label sets.
        increase: Of a counter, resets accounted for; summed over all label sets.
    """

    replica: str
    name: str
    bin: int
    mean: float
    largest: float
    increase: float


def has_any(pool: ClientPool, run_id: str, attempt: int) -> bool:
    """Tell whether the engines of an attempt reported at all. Cheap."""
    return bool(pool.query(_ANY, {"run_id": run_id, "attempt": attempt}).num_rows)


def list_engine_bins(
    pool: ClientPool,
    run_id: str,
    attempt: int,
    names: Sequence[str],
    start_ns: int,
    end_ns: int,
    bin_ns: int,
) -> Sequence[EngineBin]:
    """Return the named series of a run's engines by replica, name and time.

    Args:
        pool: Connections.
        run_id: The run.
        attempt: The attempt.
        names: Prometheus names; series with labels of these names are merged.
        start_ns: Begin of the first bin.
        end_ns: End of the range.
        bin_ns: Length of a bin.
    """
    parameters = {
        "run_id": run_id,
        "attempt": attempt,
        "names": list(names),
        "since_ns": start_ns - _LOOK_BACK_NS,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "bin_ns": bin_ns,
    }
    return [EngineBin(*row) for row in make_rows(pool.query(_BINS, parameters))]
