"""Idle gaps: stretches in which GPUs of a run stood still though its step ran."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_server.model.gpu import GpuHeatmap
from longpole_server.model.step import Gap, Step

IDLE_BELOW_RATIO = 0.05
SHORTEST_GAP_S = 1.0
_NS = 1_000_000_000


def find_gaps(
    step: Step,
    heatmap: GpuHeatmap,
    idle_below_ratio: float = IDLE_BELOW_RATIO,
    shortest_s: float = SHORTEST_GAP_S,
) -> tuple[Gap, ...]:
    """Return idle stretches of the step's GPUs by role and stage, most GPU-seconds first.

    Args:
        step: A closed step; its stage windows name the gaps.
        heatmap: Utilisation of the run's GPUs around the step. A bin without a value is not idle.
        idle_below_ratio: Utilisation under which a GPU stands idle.
        shortest_s: Shorter stretches of one GPU, or of one stage, are left out.
    """
    num_bins = heatmap.values.shape[1] if heatmap.values.ndim == 2 else 0
    if step.end_ns is None or num_bins == 0 or heatmap.bin_ns <= 0:
        return ()
    edges = heatmap.start_ns + heatmap.bin_ns * np.arange(num_bins + 1, dtype=np.int64)
    within = np.minimum(np.maximum(edges, step.start_ns), step.end_ns)
    starts, ends = within[:-1], within[1:]
    with np.errstate(invalid="ignore"):
        idle = (heatmap.values < idle_below_ratio) & (ends > starts)
    for lane in idle:
        _drop_short_runs(lane, starts, ends, shortest_s)
    stage_of_bin = _stages_of_bins(step, starts, ends)
    gaps: list[Gap] = []
    for role in sorted({lane.role for lane in heatmap.lanes}):
        rows = [row for row, lane in enumerate(heatmap.lanes) if lane.role == role]
        counts = idle[rows].sum(axis=0)
        gaps += _gaps_of_role(role, counts, starts, ends, stage_of_bin, shortest_s)
    return tuple(sorted(gaps, key=lambda gap: (-gap.gpu_seconds, gap.start_ns)))


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return [first, last + 1) of every run of True."""
    padded = np.concatenate(([False], flags, [False]))
    changes = np.flatnonzero(padded[1:] != padded[:-1])
    return [(int(changes[at]), int(changes[at + 1])) for at in range(0, len(changes), 2)]


def _drop_short_runs(
    lane: NDArray[np.bool_],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    shortest_s: float,
) -> None:
    for first, stop in _runs(lane):
        if (int(ends[stop - 1]) - int(starts[first])) / _NS < shortest_s:
            lane[first:stop] = False


def _stages_of_bins(
    step: Step, starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> Sequence[str]:
    """Name each bin by the innermost stage window over its middle."""
    windows = sorted(
        (
            (window_end - window_start, window_start, window_end, stage.stage)
            for stage in step.stages
            for window_start, window_end in stage.windows
        ),
        reverse=True,
    )
    names = np.full(len(starts), stages.UNATTRIBUTED, dtype=object)
    middles = (starts + ends) // 2
    for _, window_start, window_end, stage in windows:
        names[(middles >= window_start) & (middles < window_end)] = stage
    return [str(name) for name in names]


def _gaps_of_role(
    role: str,
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    stage_of_bin: Sequence[str],
    shortest_s: float,
) -> list[Gap]:
    gaps: list[Gap] = []
    for first, stop in _runs(counts > 0):
        begin = first
        for at in range(first + 1, stop + 1):
            if at < stop and stage_of_bin[at] == stage_of_bin[begin]:
                continue
            start_ns, end_ns = int(starts[begin]), int(ends[at - 1])
            if (end_ns - start_ns) / _NS >= shortest_s:
                part = slice(begin, at)
                idle_ns = int((counts[part] * (ends[part] - starts[part])).sum())
                gaps.append(
                    Gap(
                        start_ns,
                        end_ns,
                        stage_of_bin[begin],
                        role or None,
                        int(counts[part].max()),
                        idle_ns / _NS,
                    )
                )
            begin = at
    return gaps
