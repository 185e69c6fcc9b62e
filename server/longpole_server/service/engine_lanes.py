"""Reads what rollout engines reported over a time: KV cache, requests, preemptions."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.engines import EngineLanes
from longpole_server.read import EngineBin, Reader
from longpole_server.service.engine_windows import (
    KV_USAGE_SERIES,
    PREEMPTION_SERIES,
    RUNNING_SERIES,
    WAITING_SERIES,
)

# Engines are scraped every two seconds: shorter bins would be empty.
_MIN_BIN_NS = 2 * 10**9
# A gauge holds until it is reported again, if that is soon.
_HOLD_NS = 10 * 10**9

_Rows = NDArray[np.float32]


def read_engine_lanes(
    reader: Reader, run_id: str, attempt: int, start_ns: int, end_ns: int, max_bins: int
) -> EngineLanes:
    """Return what the engines of an attempt reported, in at most `max_bins` bins."""
    bin_ns = max(_MIN_BIN_NS, -(-(end_ns - start_ns) // max_bins))
    num_bins = max(1, -(-(end_ns - start_ns) // bin_ns))
    names = (*KV_USAGE_SERIES, *RUNNING_SERIES, *WAITING_SERIES, *PREEMPTION_SERIES)
    bins: Sequence[EngineBin] = ()
    if reader.has_engines(run_id, attempt):
        bins = reader.list_engine_bins(run_id, attempt, names, start_ns, end_ns, bin_ns)
    replicas = tuple(sorted({each.replica for each in bins}))
    rows = {name: _spread(bins, name, replicas, num_bins) for name in names}
    hold = int(_HOLD_NS // bin_ns)
    return EngineLanes(
        replicas,
        start_ns,
        bin_ns,
        kv_usage_ratio=_hold(_first_known(rows, KV_USAGE_SERIES), hold),
        running=_hold(_first_known(rows, RUNNING_SERIES), hold),
        waiting=_hold(_first_known(rows, WAITING_SERIES), hold),
        preemptions=_first_known(rows, PREEMPTION_SERIES),
    )


def _spread(bins: Sequence[EngineBin], name: str, replicas: Sequence[str], num_bins: int) -> _Rows:
    values = np.full((len(replicas), num_bins), np.nan, dtype=np.float32)
    row_of = {replica: row for row, replica in enumerate(replicas)}
    for each in bins:
        if each.name == name and 0 <= each.bin < num_bins:
            values[row_of[each.replica], each.bin] = (
                each.largest
                if name in KV_USAGE_SERIES
                else each.increase
                if name in PREEMPTION_SERIES
                else each.mean
            )
    return values


def _first_known(rows: dict[str, _Rows], names: Sequence[str]) -> _Rows:
    """Return one series: engines of several makes spell it in several ways."""
    found = rows[names[0]]
    for name in names[1:]:
        found = np.where(np.isnan(found), rows[name], found)
    return found


def _hold(values: _Rows, num_bins: int) -> _Rows:
    held: _Rows = np.array(values)
    for shift in range(1, min(num_bins, values.shape[1] - 1) + 1):
        earlier = values[:, :-shift]
        later: _Rows = held[:, shift:]
        held[:, shift:] = np.where(np.isnan(later), earlier, later)
    return held
