"""Whom the empty slots of a rollout wait for: the waste of gen by replica, group and activity.

At every moment the waste belongs in equal parts to the samples that still run. What is wasted
while none runs belongs to nobody. So the parts add up to the whole.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from longpole_server.analysis.longtail_samples import (
    Floats,
    GenSamples,
    clip_to_gen,
    column,
    count_running,
)
from longpole_server.analysis.modes import has_separate_pools
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts

ROLLOUT_ROLE = "rollout"
# Where an activity takes less, its time is rounding.
_NEGLIGIBLE = 1e-6
ActivityKind = Literal["generate", "tool", "score", "queue", "other"]


@dataclass(frozen=True, slots=True)
class WasteShare:
    """What is wasted while the samples of one thing are waited for.

    Attributes:
        id: Replica, group, or activity; None for samples that do not say.
        ratio: Part of the whole waste, 0..1.
        seconds: Seconds of the whole rollout: times its GPUs they are GPU-seconds.
        num_samples: Samples that take part.
    """

    id: str | None
    ratio: float
    seconds: float
    num_samples: int


@dataclass(frozen=True, slots=True)
class Waste:
    """The waste of one gen and whom it waits for, the largest first.

    Attributes:
        seconds: Integral of 1 - running / most running over gen.
        unclaimed_s: The part of it in which no sample ran.
        by_replica, by_group: Empty when no sample says.
        by_activity: `generate`, `score`, `queue`, `other`, or the name of a tool; a sample's part
            is split as its whole time is, which is an estimate. Empty when no sample says.
    """

    seconds: float
    unclaimed_s: float
    by_replica: tuple[WasteShare, ...]
    by_group: tuple[WasteShare, ...]
    by_activity: tuple[WasteShare, ...]


@dataclass(frozen=True, slots=True)
class RolloutGpus:
    """GPUs that generate samples; None with the reason why they are not known."""

    count: int | None
    reason: str | None = None


def break_down_waste(
    trajectories: TrajectoryFacts, gen_windows_ns: Sequence[tuple[int, int]] | None = None
) -> Waste | None:
    """Split the waste of gen over replicas, groups and activities.

    Args:
        trajectories: Training samples with their own times.
        gen_windows_ns: Windows of gen: samples are clipped to them, those outside do not count.

    Returns:
        None without samples.
    """
    samples = clip_to_gen(trajectories, gen_windows_ns)
    if not len(samples.rows):
        return None
    claimed_s, unclaimed_s = claim_waste(samples)
    total_s = float(claimed_s.sum()) + unclaimed_s
    rows: list[int] = samples.rows.tolist()
    return Waste(
        total_s,
        unclaimed_s,
        _share_by([trajectories.replicas[row] for row in rows], claimed_s, total_s),
        _share_by(_pick(trajectories.group_ids, rows), claimed_s, total_s),
        _share_by_activity(trajectories, samples, claimed_s, total_s),
    )


def claim_waste(samples: GenSamples) -> tuple[Floats, float]:
    """Return each sample's part of the waste, and what is wasted while none runs, in seconds."""
    edges = np.unique(np.concatenate(([0.0, samples.window_s], samples.starts, samples.ends)))
    lengths = np.diff(edges)
    first, last = np.searchsorted(edges, samples.starts), np.searchsorted(edges, samples.ends)
    rates = samples.rates
    changes = np.zeros(len(edges))
    np.add.at(changes, first, rates)
    np.subtract.at(changes, last, rates)
    opened = np.zeros(len(edges), dtype=np.int64)
    np.add.at(opened, first, 1)
    np.subtract.at(opened, last, 1)
    is_open = np.cumsum(opened)[:-1] > 0
    # Sums of rates are not exactly zero where every sample has ended.
    running = np.where(is_open, np.maximum(np.cumsum(changes)[:-1], 0.0), 0.0)
    empty_s = np.maximum(0.0, 1.0 - running / count_running(samples)) * lengths
    is_claimed = running > 1e-9
    density = np.divide(empty_s, running, out=np.zeros_like(empty_s), where=is_claimed)
    before = np.concatenate(([0.0], np.cumsum(density)))
    return rates * (before[last] - before[first]), float(empty_s[~is_claimed].sum())


def count_rollout_gpus(run: RunFacts, facts: StepFacts, mode: str | None) -> RolloutGpus:
    """Return how many GPUs generate the samples of a step.

    Where trainer and rollout share GPUs these are all of the run; else those that say so.
    """
    if not has_separate_pools(mode):
        count = run.gpu_count or facts.step.gpu_count
        return RolloutGpus(count, None if count else "the run's GPU count is not known")
    counts = [window.gpu_count for window in facts.gpu_windows if window.role == ROLLOUT_ROLE]
    if counts:
        return RolloutGpus(max(counts))
    return RolloutGpus(None, "which of the run's GPUs generate samples is not known")


def _pick(values: Sequence[str | None], rows: Iterable[int]) -> list[str | None]:
    return [values[row] for row in rows] if len(values) else []


def _share_by(
    names: Sequence[str | None], claimed_s: Floats, total_s: float
) -> tuple[WasteShare, ...]:
    if not any(name is not None for name in names):
        return ()
    numbers: dict[str | None, int] = {}
    which = np.array([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.intp)
    seconds = np.bincount(which, weights=claimed_s, minlength=len(numbers)).tolist()
    counts = np.bincount(which, minlength=len(numbers)).tolist()
    return _in_order(
        WasteShare(name, _part(seconds[number], total_s), seconds[number], counts[number])
        for name, number in numbers.items()
    )


def _share_by_activity(
    trajectories: TrajectoryFacts, samples: GenSamples, claimed_s: Floats, total_s: float
) -> tuple[WasteShare, ...]:
    rows = samples.rows
    count = len(trajectories.start_ns)
    durations_s = column(trajectories.durations_s, count)[rows]
    kinds = ("generate", "tool", "score", "queue")
    spent = np.column_stack(
        [column(getattr(trajectories, f"{kind}_s"), count)[rows] for kind in kinds]
    )
    if np.isnan(spent).all():
        return ()
    spent = np.maximum(np.nan_to_num(spent), 0.0)
    # Parallel calls may add up to more than the sample's time.
    whole = np.maximum(np.nan_to_num(durations_s), spent.sum(axis=1))
    parts = np.divide(spent, whole[:, None], out=np.zeros_like(spent), where=whole[:, None] > 0)
    tools = _pick(trajectories.tools, rows.tolist()) or [None] * len(rows)
    found: list[WasteShare] = []
    for index, kind in enumerate(kinds):
        seconds = parts[:, index] * claimed_s
        if kind == "tool":
            found += _share_by_tool(tools, seconds, parts[:, index] > 0, total_s)
        else:
            found.append(_whole_share(kind, seconds, parts[:, index] > 0, total_s))
    rest = np.maximum(0.0, 1.0 - parts.sum(axis=1))
    found.append(_whole_share("other", rest * claimed_s, rest > 0, total_s))
    return _in_order(share for share in found if share.ratio > _NEGLIGIBLE)


def _share_by_tool(
    tools: Sequence[str | None],
    seconds: Floats,
    used: np.ndarray[tuple[int], np.dtype[np.bool_]],
    total_s: float,
) -> list[WasteShare]:
    rows_of: dict[str, list[int]] = {}
    for row, tool in enumerate(tools):
        if used[row]:
            rows_of.setdefault(tool or "tool", []).append(row)
    return [
        WasteShare(
            tool, _part(float(seconds[rows].sum()), total_s), float(seconds[rows].sum()), len(rows)
        )
        for tool, rows in rows_of.items()
    ]


def _whole_share(
    kind: ActivityKind,
    seconds: Floats,
    used: np.ndarray[tuple[int], np.dtype[np.bool_]],
    total_s: float,
) -> WasteShare:
    spent_s = float(seconds.sum())
    return WasteShare(kind, _part(spent_s, total_s), spent_s, int(used.sum()))


def _part(seconds: float, total_s: float) -> float:
    return seconds / total_s if total_s > 0 else 0.0


def _in_order(shares: Iterable[WasteShare]) -> tuple[WasteShare, ...]:
    return tuple(sorted(shares, key=lambda share: (-share.seconds, share.id or "")))
