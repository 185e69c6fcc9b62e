"""Interval arithmetic on stage windows: who owns which moment of a step.

All times are integers, so that parts add up exactly.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Node:
    """A stage window in the tree of windows.

    Attributes:
        parent: Index of the window it is nested in, None at the top.
    """

    stage: str
    start: int
    end: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Ownership:
    """What every stage owns, and how long siblings of different stages overlapped.

    Attributes:
        owned: Total time by stage; disjoint, inside the given bounds.
        overlaps: (stage that got the time, stage that lost it) -> time.
    """

    owned: Mapping[str, int]
    overlaps: Mapping[tuple[str, str], int]


def clip(interval: Interval, bounds: Interval) -> Interval | None:
    """Return the part of an interval inside bounds, None when there is none."""
    start, end = max(interval[0], bounds[0]), min(interval[1], bounds[1])
    return (start, end) if end > start else None


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as sorted, disjoint intervals."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """Return the total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def share_out(nodes: Sequence[Node], bounds: Interval) -> Ownership:
    """Give every moment within bounds to one stage.

    A nested window owns its time, its parent keeps the rest. Where siblings overlap, the moment
    belongs to the one that ends last, and inside it to its nested windows.
    """
    points = {bounds[0], bounds[1]}
    for node in nodes:
        points.update(point for point in (node.start, node.end) if bounds[0] < point < bounds[1])
    cuts = sorted(points)
    starts = sorted(range(len(nodes)), key=lambda index: nodes[index].start)
    owned: dict[str, int] = {}
    overlaps: dict[tuple[str, str], int] = {}
    active: list[int] = []
    upcoming = 0
    for begin, end in pairwise(cuts):
        while upcoming < len(starts) and nodes[starts[upcoming]].start <= begin:
            active.append(starts[upcoming])
            upcoming += 1
        active = [index for index in active if nodes[index].end > begin]
        if active:
            winner, losers = _choose(nodes, active)
            stage = nodes[winner].stage
            owned[stage] = owned.get(stage, 0) + end - begin
            for loser in losers - {stage}:
                overlaps[stage, loser] = overlaps.get((stage, loser), 0) + end - begin
    return Ownership(owned, overlaps)


def _choose(nodes: Sequence[Node], active: Sequence[int]) -> tuple[int, set[str]]:
    """Return the window that owns a moment, and the stages of siblings that were running too."""
    level_of: dict[int | None, list[int]] = {}
    running = set(active)
    for index in active:
        parent = nodes[index].parent
        while parent is not None and parent not in running:
            parent = nodes[parent].parent
        level_of.setdefault(parent, []).append(index)
    losers: set[str] = set()
    winner: int | None = None
    while siblings := level_of.get(winner):
        chosen = max(siblings, key=lambda index: (nodes[index].end, nodes[index].start, index))
        losers.update(nodes[index].stage for index in siblings if index != chosen)
        winner = chosen
    assert winner is not None  # noqa: S101 - `active` is never empty, and parents form no cycle
    return winner, losers
