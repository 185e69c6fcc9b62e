"""The samples of GPUs over a short range as columns: read once, for all that is made of them.

A query for one figure reads the same ten minutes of every GPU as a query for all of them.
"""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.gpu import GpuHeatmap, RunGpu
from longpole_server.read.gpu_energy import NEAR_NS
from longpole_server.read.gpus import GpuWork
from longpole_server.read.heatmap import ROLLUP_FIELDS, plan_bins
from longpole_server.read.pool import ClientPool

# Fields that can be averaged; what else is read has a name of its own below.
MEAN_FIELDS = (
    "utilization_ratio",
    "sm_active_ratio",
    "tensor_active_ratio",
    "dram_active_ratio",
    "power_watts",
)
_NUMBERS = (*MEAN_FIELDS, "energy_joules", "sm_clock_hz")
_NOT_TOLD = -1
_SAMPLES = """
SELECT
    gpu_uuid,
    toUnixTimestamp64Nano(ts_ns) AS at,
    ifNull(toFloat64(sample.utilization_ratio), nan) AS utilization_ratio,
    ifNull(toFloat64(sample.sm_active_ratio), nan) AS sm_active_ratio,
    ifNull(toFloat64(sample.tensor_active_ratio), nan) AS tensor_active_ratio,
    ifNull(toFloat64(sample.dram_active_ratio), nan) AS dram_active_ratio,
    ifNull(toFloat64(sample.power_watts), nan) AS power_watts,
    ifNull(toFloat64(sample.energy_joules), nan) AS energy_joules,
    ifNull(toFloat64(sample.sm_clock_hz), nan) AS sm_clock_hz,
    ifNull(sample.clocks_event_reasons, -1) AS reasons
FROM gpu_samples AS sample
WHERE ts_ns >= fromUnixTimestamp64Nano({start_ns:Int64})
  AND ts_ns < fromUnixTimestamp64Nano({end_ns:Int64})
  AND host IN (SELECT host FROM gpu_latest WHERE gpu_uuid IN {gpus:Array(String)})
  AND gpu_uuid IN {gpus:Array(String)}
LIMIT {limit:UInt64}
"""

_Floats = NDArray[np.float64]
_Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GpuColumns:
    """Every sample of some GPUs in a range, in no order.

    Attributes:
        gpu_uuids: The GPUs that were asked for, by their row; also those without a sample.
        start_ns, end_ns: The range, its end excluded.
        rows: Row of the GPU, by sample.
        at_ns: When, by sample.
        values: Numbers by field and sample, NaN where none was reported.
        reasons: Clock-event reasons, -1 where none were reported.
    """

    gpu_uuids: Mapping[str, int]
    start_ns: int
    end_ns: int
    rows: _Whole
    at_ns: _Whole
    values: Mapping[str, _Floats]
    reasons: _Whole

    def covers(self, gpu_uuids: Sequence[str], start_ns: int, end_ns: int) -> bool:
        """Tell whether every sample of some GPUs in a range is here."""
        return (
            self.start_ns <= start_ns
            and end_ns <= self.end_ns
            and all(uuid in self.gpu_uuids for uuid in gpu_uuids)
        )

    def average(
        self, lanes: Sequence[RunGpu], name: str, start_ns: int, end_ns: int, max_bins: int
    ) -> GpuHeatmap | None:
        """Return a field binned by mean as `Reader.get_gpu_heatmap` does; None if it is not here.

        Neither are bins that are made of rollups.
        """
        has_rollup = name in ROLLUP_FIELDS
        bins = plan_bins(start_ns, end_ns, max_bins, has_rollup=has_rollup)
        uuids = [lane.gpu_uuid for lane in lanes]
        if (
            name not in MEAN_FIELDS
            or bins.rollup_s
            or not self.covers(uuids, bins.start_ns, bins.end_ns)
        ):
            return None
        found = self.values[name]
        known = (self.at_ns >= bins.start_ns) & (self.at_ns < bins.end_ns) & ~np.isnan(found)
        places = (self.at_ns[known] - bins.start_ns) // bins.bin_ns
        cells = self.rows[known] * bins.num_bins + places
        shape = (len(self.gpu_uuids), bins.num_bins)
        totals = np.bincount(cells, found[known], shape[0] * shape[1])
        counts = np.bincount(cells, minlength=shape[0] * shape[1])
        means = np.full(len(totals), np.nan, dtype=np.float32)
        filled = counts > 0
        means[filled] = totals[filled] / counts[filled]
        chosen = [self.gpu_uuids[uuid] for uuid in uuids]
        return GpuHeatmap(
            name, tuple(lanes), bins.start_ns, bins.bin_ns, means.reshape(shape)[chosen]
        )

    def sum_work(
        self, start_ns: int, end_ns: int, busy_activity: float, slowdown_mask: int
    ) -> Sequence[GpuWork]:
        """Return what each GPU did over a range inside this one, as `Reader.list_gpu_work`."""
        inside = (self.at_ns >= start_ns) & (self.at_ns < end_ns)
        rows, at_ns = self.rows[inside], self.at_ns[inside]
        size = len(self.gpu_uuids)
        activity = self.values["sm_active_ratio"][inside]
        utilization = self.values["utilization_ratio"][inside]
        activity = np.where(np.isnan(activity), utilization, activity)
        busy = np.nan_to_num(activity) >= busy_activity
        reasons = self.reasons[inside]
        told = reasons != _NOT_TOLD
        slow = np.where(told, reasons & slowdown_mask, 0)
        num_samples = np.bincount(rows, minlength=size)
        num_busy = np.bincount(rows[busy], minlength=size)
        num_told = np.bincount(rows[busy & told], minlength=size)
        num_slow = np.bincount(rows[busy & (slow != 0)], minlength=size)
        together = np.zeros(size, dtype=np.int64)
        np.bitwise_or.at(together, rows[busy], slow[busy])
        first, last = _extremes(rows, at_ns, size)
        spans = np.where(
            num_samples > 1, (last - first) / np.maximum(num_samples - 1, 1), end_ns - start_ns
        )
        interval_s = spans / 1e9
        clock = _mean_by_row(rows, self.values["sm_clock_hz"][inside], busy, size)
        power = _mean_by_row(rows, self.values["power_watts"][inside], busy, size)
        return [
            GpuWork(
                gpu_uuid=uuid,
                busy_s=float(num_busy[row] * interval_s[row]),
                idle_s=float((num_samples[row] - num_busy[row]) * interval_s[row]),
                busy_sm_clock_hz=clock[row],
                slow_ratio=float(num_slow[row] / num_told[row]) if num_told[row] else None,
                reasons=int(together[row]),
                reported_to_ns=int(last[row]),
                busy_power_watts=power[row],
            )
            for uuid, row in self.gpu_uuids.items()
            if num_samples[row]
        ]

    def count_energy(self, moments_ns: Sequence[int]) -> Mapping[tuple[str, int], float]:
        """Return joules by GPU and moment as `Reader.read_energy` does.

        The moments lie in this range, and as far from its ends as samples may lie from a moment.
        """
        told = ~np.isnan(self.values["energy_joules"])
        order = np.lexsort((self.at_ns[told], self.rows[told]))
        rows, at_ns = self.rows[told][order], self.at_ns[told][order]
        joules = self.values["energy_joules"][told][order]
        watts = np.nan_to_num(self.values["power_watts"][told][order])
        length_ns = self.end_ns - self.start_ns
        keys = rows * length_ns + (at_ns - self.start_ns)
        found: dict[tuple[str, int], float] = {}
        every = np.arange(len(self.gpu_uuids), dtype=np.int64)
        for moment_ns in sorted(set(moments_ns)) if len(keys) else ():
            after = np.searchsorted(keys, every * length_ns + (moment_ns - self.start_ns), "right")
            before = np.maximum(after - 1, 0)
            following = np.minimum(after, len(keys) - 1)
            since_ns = moment_ns - at_ns[before]
            known = (after > 0) & (rows[before] == every) & (since_ns < NEAR_NS)
            has_next = (rows[following] == every) & (after < len(keys))
            has_next &= at_ns[following] - moment_ns < NEAR_NS
            rise = joules[following] - joules[before]
            apart_ns = np.where(has_next, at_ns[following] - at_ns[before], 1)
            grown = np.where(
                has_next & (rise >= 0), rise * since_ns / apart_ns, watts[before] * since_ns / 1e9
            )
            totals = (joules[before] + grown).tolist()
            found |= {
                (uuid, moment_ns): totals[row]
                for (uuid, row), is_known in zip(
                    self.gpu_uuids.items(), known.tolist(), strict=True
                )
                if is_known
            }
        return found


def read_gpu_columns(
    pool: ClientPool, gpu_uuids: Sequence[str], start_ns: int, end_ns: int, max_samples: int
) -> GpuColumns | None:
    """Return all samples of some GPUs in a range, None if there are more than `max_samples`."""
    known = {uuid: row for row, uuid in enumerate(dict.fromkeys(gpu_uuids))}
    parameters = {
        "gpus": list(known),
        "start_ns": start_ns,
        "end_ns": end_ns,
        "limit": max_samples + 1,
    }
    table = pool.query(_SAMPLES, parameters)
    if table.num_rows > max_samples:
        return None
    names = table["gpu_uuid"].combine_chunks().dictionary_encode()
    of_code = np.array([known[str(name)] for name in names.dictionary.to_pylist()], dtype=np.int64)
    return GpuColumns(
        gpu_uuids=known,
        start_ns=start_ns,
        end_ns=end_ns,
        rows=of_code[names.indices.to_numpy()],
        at_ns=table["at"].to_numpy(),
        values={name: table[name].to_numpy() for name in _NUMBERS},
        reasons=table["reasons"].to_numpy(),
    )


def _extremes(rows: _Whole, at_ns: _Whole, size: int) -> tuple[_Whole, _Whole]:
    """Return the first and last moment of each row; what rows without any have means nothing."""
    first = np.full(size, np.iinfo(np.int64).max)
    last = np.full(size, np.iinfo(np.int64).min)
    np.minimum.at(first, rows, at_ns)
    np.maximum.at(last, rows, at_ns)
    return first, last


def _mean_by_row(
    rows: _Whole, values: _Floats, chosen: NDArray[np.bool_], size: int
) -> list[float | None]:
    known = chosen & ~np.isnan(values)
    counts = np.bincount(rows[known], minlength=size)
    totals = np.bincount(rows[known], values[known], size)
    return [
        total / count if count else None
        for total, count in zip(totals.tolist(), counts.tolist(), strict=True)
    ]
