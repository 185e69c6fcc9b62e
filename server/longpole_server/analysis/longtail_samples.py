"""Samples of a step on the time axis of its gen, for the arithmetic of the long tail."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_server.model.facts import TrajectoryFacts

Floats = NDArray[np.float64]
NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class GenSamples:
    """The samples that ran during gen. Times are seconds of gen, what lies between does not count.

    Attributes:
        rows: Their positions among the samples given.
        starts, ends: Clipped to gen.
        active_s: Seconds within gen in which each of them was not paused.
        window_s: Length of gen; without its windows, from the first start to the last end.
    """

    rows: NDArray[np.intp]
    starts: Floats
    ends: Floats
    active_s: Floats
    window_s: float

    @property
    def rates(self) -> Floats:
        """Part of its time in gen in which each sample ran: nobody says when it was paused."""
        return self.active_s / (self.ends - self.starts)


def clip_to_gen(
    samples: TrajectoryFacts, gen_windows_ns: Sequence[tuple[int, int]] | None = None
) -> GenSamples:
    """Return the samples that ran during gen.

    A pause lies outside gen as far as the sample does: a partial rollout is paused while the
    trainer works. Only the rest of it is taken from the sample's time in gen.

    Args:
        samples: Training samples with their own times.
        gen_windows_ns: Windows of gen, apart and in order; None takes all of the samples' time.
    """
    starts_ns = np.asarray(samples.start_ns, dtype=np.int64)
    ends_ns = np.asarray(samples.end_ns, dtype=np.int64)
    if not len(starts_ns):
        nothing = np.empty(0)
        return GenSamples(np.empty(0, np.intp), nothing, nothing, nothing, 0.0)
    # Times since a moment of the step: wall clocks in nanoseconds are too large for floats.
    origin_ns = int(gen_windows_ns[0][0] if gen_windows_ns else starts_ns.min())
    starts, ends = starts_ns - origin_ns, ends_ns - origin_ns
    raw_s = (ends - starts) / NS_PER_S
    if gen_windows_ns:
        axis = _GenAxis(gen_windows_ns, origin_ns)
        in_gen = axis.seconds(starts), axis.seconds(ends)
        window_s = axis.length_s
    else:
        in_gen = starts / NS_PER_S, ends / NS_PER_S
        window_s = float(in_gen[1].max())
    rows = np.flatnonzero(in_gen[1] > in_gen[0])
    clipped_s = (in_gen[1] - in_gen[0])[rows]
    paused_s = column(samples.paused_s, len(raw_s))[rows]
    paused_inside = np.maximum(0.0, np.nan_to_num(paused_s) - (raw_s[rows] - clipped_s))
    return GenSamples(
        rows,
        in_gen[0][rows],
        in_gen[1][rows],
        np.maximum(0.0, clipped_s - paused_inside),
        max(0.0, window_s),
    )


def column(values: Sequence[float | None], count: int) -> Floats:
    """Return one number a sample, NaN where unknown; a column nobody asked for is unknown."""
    if not len(values):
        return np.full(count, np.nan)
    return np.array(values, dtype=np.float64)


def count_running(samples: GenSamples) -> int:
    """Return how many samples ran at once at the most."""
    starts, ends = np.sort(samples.starts), np.sort(samples.ends)
    # At one moment ends come before starts: a slot that is handed over counts once.
    ended = np.searchsorted(ends, starts, side="right")
    return int((np.arange(1, len(starts) + 1) - ended).max(initial=0))


class _GenAxis:
    """Turns times into seconds of gen: it stands still between the windows."""

    def __init__(self, windows_ns: Sequence[tuple[int, int]], origin_ns: int) -> None:
        edges: list[float] = []
        elapsed: list[float] = []
        length_ns = 0
        for start_ns, end_ns in windows_ns:
            edges += ((start_ns - origin_ns) / NS_PER_S, (end_ns - origin_ns) / NS_PER_S)
            elapsed += (length_ns / NS_PER_S, (length_ns + end_ns - start_ns) / NS_PER_S)
            length_ns += end_ns - start_ns
        self._edges, self._elapsed = np.array(edges), np.array(elapsed)
        self.length_s = length_ns / NS_PER_S

    def seconds(self, times: NDArray[np.int64]) -> Floats:
        return np.interp(times / NS_PER_S, self._edges, self._elapsed)
