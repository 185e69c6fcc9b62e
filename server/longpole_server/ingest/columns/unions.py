"""How long windows last together, for many owners at once."""
# pyarrow carries no complete types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import numpy as np
import pyarrow as pa

from longpole_server.ingest.columns.texts import Column, to_column
from longpole_server.ingest.columns.wire import Ints, UnfitError

_NS_PER_S = 1e9
_MAX = (1 << 63) - 1


def measure_unions_s(owners: Ints, start_ns: Ints, end_ns: Ints, count: int) -> Column:
    """Return the seconds that at least one window of each owner covers; null without a window.

    Raises:
        UnfitError: The times lie too far apart to be worked out together.
    """
    if not len(owners):
        return pa.nulls(count, pa.float64())
    order = np.lexsort((end_ns, start_ns, owners))
    owners, start_ns, end_ns = owners[order], start_ns[order], end_ns[order]
    earliest_ns = min(int(start_ns.min()), int(end_ns.min()))
    span_ns = max(int(start_ns.max()), int(end_ns.max())) - earliest_ns + 1
    if span_ns * (count + 1) > _MAX:
        raise UnfitError("times too far apart")
    # One owner's windows after another's on one axis, so that a running maximum serves them all.
    base_ns = owners * span_ns - earliest_ns
    starts, ends = start_ns + base_ns, end_ns + base_ns
    covered = np.maximum.accumulate(ends)
    before = np.concatenate((np.full(1, -1, np.int64), covered[:-1]))
    added = np.maximum(ends - np.maximum(starts, before), 0)
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    seconds = np.full(count, np.nan)
    seconds[owners[first]] = np.add.reduceat(added, first) / _NS_PER_S
    return to_column(seconds, ~np.isnan(seconds))
