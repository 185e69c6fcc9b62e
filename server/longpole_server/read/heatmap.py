"""One GPU field over time, binned in the database, from rollups where the bins allow it."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from string import Template

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from longpole_server.errors import BadRequestError
from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.model.records import GpuSample
from longpole_server.read.pool import ClientPool

_SECOND_NS = 1_000_000_000
# Seconds of a rollup, and of the shortest bin that is made of it: samples as they are would be ten
# times as many rows as the shorter one, the longer one would make bins of 70 s twice as long.
_ROLLUPS_S = ((60, 120), (10, 10))

# Fields of a GPU sample that can be averaged, and those of them that the rollups hold.
GPU_FIELDS = tuple(
    field.name
    for field in fields(GpuSample)
    if field.name
    not in ("host", "gpu_uuid", "gpu_index", "ts_ns", "model", "parent_uuid", "mig_profile")
)
ROLLUP_FIELDS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "memory_used_bytes",
    "power_watts",
)

# Up to so many rows are taken as they are and added up here: the database would put them into a
# hash table of hardly fewer cells, which takes five times as long. Beyond, it adds them up.
_MAX_FLAT_ROWS = 3_000_000

# A range on `ts_ns` prunes the key's time bucket; the hosts prune what follows it in the key, which
# does not lead to a GPU's identity.
_SELECT = Template("""
SELECT
    toUInt32(transform(gpu_uuid, {gpus:Array(String)}, {rows:Array(UInt32)}, toUInt32(0))) AS row,
    toUInt32(intDiv(toUnixTimestamp64Nano(ts_ns) - {start_ns:Int64}, {bin_ns:Int64})) AS bin,
    $values
FROM {table:Identifier}
WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
  AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {gpus:Array(String)})
  AND gpu_uuid IN {gpus:Array(String)}
$grouping
""")


@dataclass(frozen=True, slots=True)
class Bins:
    """How a time range is cut.

    Attributes:
        rollup_s: Seconds of the rollup to read: 60, 10, or 0 for samples as they are.
        start_ns: Not after the start asked for, and less than `rollup_s` before it.
        bin_ns: A whole number of seconds, and of `rollup_s`.
    """

    rollup_s: int
    start_ns: int
    bin_ns: int
    num_bins: int

    @property
    def end_ns(self) -> int:
        """Where the last bin ends."""
        return self.start_ns + self.num_bins * self.bin_ns


def plan_bins(start_ns: int, end_ns: int, max_bins: int, *, has_rollup: bool) -> Bins:
    """Cut a range into at most `max_bins` bins, each as short as that allows.

    A bin is never shorter than a second. Of 10 s and more it consists of whole rollup rows,
    where the field `has_rollup`, and then the range begins where such a row begins.
    """
    seconds = max(_divide_up(end_ns - start_ns, max(max_bins, 1) * _SECOND_NS), 1)
    rollup_s = next((each for each, least in _ROLLUPS_S if has_rollup and seconds >= least), 0)
    unit_ns = (rollup_s or 1) * _SECOND_NS
    if rollup_s:
        start_ns -= start_ns % unit_ns
    bin_ns = _divide_up(seconds * _SECOND_NS, unit_ns) * unit_ns
    if _divide_up(end_ns - start_ns, bin_ns) > max(max_bins, 1):
        # The earlier start needs a bin more than there is room for.
        bin_ns += unit_ns
    return Bins(rollup_s, start_ns, bin_ns, max(_divide_up(end_ns - start_ns, bin_ns), 0))


def get_heatmaps(
    pool: ClientPool,
    lanes: Sequence[RunGpu],
    names: Sequence[str],
    start_ns: int,
    end_ns: int,
    max_bins: int,
    max_flat_rows: int = _MAX_FLAT_ROWS,
) -> dict[str, GpuHeatmap]:
    """Return fields of the given GPUs by name, binned by mean, all over the same bins.

    Args:
        pool: Where to ask.
        lanes: The GPUs.
        names: The fields.
        start_ns: Begin of the range.
        end_ns: End of the range, exclusive.
        max_bins: At most so many.
        max_flat_rows: Rows from which on the database adds them up.

    Raises:
        BadRequestError: A GPU sample has no such field.
    """
    for name in names:
        if name not in GPU_FIELDS:
            raise BadRequestError(
                f"GPUs have no field {name!r}.", "One of: " + ", ".join(GPU_FIELDS)
            )
    has_rollup = all(name in ROLLUP_FIELDS for name in names)
    bins = plan_bins(start_ns, end_ns, max_bins, has_rollup=has_rollup)
    rows = {gpu: row for row, gpu in enumerate(dict.fromkeys(lane.gpu_uuid for lane in lanes))}
    lane_rows = [rows[lane.gpu_uuid] for lane in lanes]
    heatmaps: dict[str, GpuHeatmap] = {}
    table = _query(pool, bins, names, rows, max_flat_rows) if rows and bins.num_bins else None
    for name in names:
        values = np.full((len(rows), bins.num_bins), np.nan, dtype=np.float32)
        if table is not None:
            _fill(values, table, name)
        heatmaps[name] = GpuHeatmap(
            name, tuple(lanes), bins.start_ns, bins.bin_ns, values[lane_rows]
        )
    return heatmaps


def _query(
    pool: ClientPool, bins: Bins, names: Sequence[str], rows: Mapping[str, int], max_flat_rows: int
) -> pa.Table:
    """Return sum and count of each field by row and bin; a cell may come in several parts."""
    num_rows = len(rows) * (bins.end_ns - bins.start_ns) // ((bins.rollup_s or 1) * _SECOND_NS)
    is_flat = num_rows <= max_flat_rows
    if bins.rollup_s:
        wrap = "{}" if is_flat else "sum({})"
        values = [
            f"{wrap.format(f'{name}_{part}')} AS {part}_{name}"
            for name in names
            for part in ("sum", "count")
        ]
    elif is_flat:
        # A sample is the sum of itself; what is missing counts nothing.
        values = [f"toFloat64({name}) AS sum_{name}" for name in names]
    else:
        values = [
            f"sum(toFloat64({name})) AS sum_{name}, count({name}) AS count_{name}" for name in names
        ]
    # The names are those of columns that were checked; they are the only text put into the query.
    sql = _SELECT.substitute(
        values=", ".join(values), grouping="" if is_flat else "GROUP BY row, bin"
    )
    parameters = {
        "table": f"gpu_samples_{bins.rollup_s}s" if bins.rollup_s else "gpu_samples",
        "gpus": list(rows),
        "rows": list(rows.values()),
        "start_ns": bins.start_ns,
        "end_ns": bins.end_ns,
        "bin_ns": bins.bin_ns,
    }
    return pool.query(sql, parameters)


def _fill(values: NDArray[np.float32], table: pa.Table, name: str) -> None:
    """Put the means of a field into its cells."""
    num_bins = values.shape[1]
    cells = table["row"].to_numpy().astype(np.int64) * num_bins + table["bin"].to_numpy()
    sums = table[f"sum_{name}"].to_numpy()
    known = np.isfinite(sums)
    counts = None
    if f"count_{name}" in table.column_names:
        counts = table[f"count_{name}"].to_numpy()
        known &= counts > 0
        counts = counts[known]
    totals = np.bincount(cells[known], sums[known], values.size)
    numbers = np.bincount(cells[known], counts, values.size)
    filled = numbers > 0
    flat = values.reshape(-1)
    flat[filled] = totals[filled] / numbers[filled]


def _divide_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
