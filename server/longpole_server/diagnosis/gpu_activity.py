"""What GPUs did: activity in stages, idle seconds by side, clocks against peers."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longpole_server.diagnosis.thresholds import Limits
from longpole_server.diagnosis.view import View
from longpole_server.model.facts import GpuFacts, GpuWindow

TRAINER_ROLES = frozenset({"trainer", "critic", "ref", "hybrid"})
# Fewer peers have no median that one of them could fall behind.
_MIN_PEERS = 3


@dataclass(frozen=True, slots=True)
class Activity:
    """Means over the GPUs of a stage, 0..1 and watts. None is not reported."""

    sm: float | None
    tensor: float | None
    dram: float | None
    power_watts: float | None


@dataclass(frozen=True, slots=True)
class Straggler:
    """A GPU that works at a lower clock than the others of its role.

    Attributes:
        clock_hz, peers_hz: Mean SM clock at work, and the median of the others.
        ratio: The one over the other.
        reasons: Slowdown reasons that it names.
    """

    gpu: GpuFacts
    clock_hz: float
    peers_hz: float
    ratio: float
    reasons: tuple[str, ...]


def measure_activity(windows: Iterable[GpuWindow]) -> Activity | None:
    """Return mean activity by GPU-seconds, None without windows."""
    known = [window for window in windows if window.seconds > 0 and window.gpu_count > 0]
    if not known:
        return None
    return Activity(
        _mean(known, "sm_active_ratio"),
        _mean(known, "tensor_active_ratio"),
        _mean(known, "dram_active_ratio"),
        _mean(known, "power_watts"),
    )


def idle_gpu_seconds(view: View, *, trainer: bool) -> float | None:
    """Return GPU-seconds a step without work on one side, None when nobody measured them.

    Times of single GPUs count where they are known, else activity in the stages' windows: full
    below one limit, none from another one on, and in proportion between.
    """
    totals = [
        total
        for facts in view.gpu_facts or view.facts
        if (total := _idle_of_gpus(facts.gpus, trainer=trainer)) is not None
        or (total := _idle_of_windows(facts.gpu_windows, view.limits, trainer=trainer)) is not None
    ]
    return statistics.fmean(totals) if totals else None


def count_gpus(view: View, *, trainer: bool) -> int | None:
    """Return how many GPUs one side holds, None when nobody says."""
    for facts in reversed(view.facts):
        gpus = [gpu for gpu in facts.gpus if _is_trainer(gpu.role) == trainer]
        if gpus:
            return len(gpus)
        counts: dict[str, int] = {}
        for window in facts.gpu_windows:
            if _is_trainer(window.role) == trainer:
                counts[window.role] = max(counts.get(window.role, 0), window.gpu_count)
        if counts:
            return sum(counts.values())
    return None


def find_stragglers(view: View, roles: frozenset[str] | None = None) -> list[Straggler]:
    """Return GPUs whose clock at work is well below their role's, the slowest first.

    Args:
        view: The window.
        roles: Roles that are looked at; None is all.
    """
    clocks: dict[str, list[float]] = {}
    newest: dict[str, GpuFacts] = {}
    reasons: dict[str, set[str]] = {}
    for facts in view.gpu_facts:
        for gpu in facts.gpus:
            if gpu.busy_sm_clock_hz and (roles is None or gpu.role in roles):
                clocks.setdefault(gpu.gpu_uuid, []).append(gpu.busy_sm_clock_hz)
                reasons.setdefault(gpu.gpu_uuid, set()).update(gpu.throttle_reasons)
                newest[gpu.gpu_uuid] = gpu
    by_role: dict[str, dict[str, float]] = {}
    for uuid, values in clocks.items():
        by_role.setdefault(newest[uuid].role, {})[uuid] = statistics.fmean(values)
    limit = view.limits["straggler.clock_ratio"]
    found: list[Straggler] = []
    for means in by_role.values():
        if len(means) <= _MIN_PEERS:
            continue
        usual_hz = statistics.median(means.values())
        found += [
            Straggler(
                newest[uuid], mean_hz, usual_hz, mean_hz / usual_hz, tuple(sorted(reasons[uuid]))
            )
            for uuid, mean_hz in means.items()
            if mean_hz < limit * usual_hz
        ]
    return sorted(found, key=lambda straggler: (straggler.ratio, straggler.gpu.gpu_uuid))


def busy_part(activity: float, limits: Limits) -> float:
    """Return the part of a time with this mean SM activity that counts as work, 0..1."""
    return 1.0 - _idle_part(activity, limits["gpu.idle_activity"], limits["gpu.busy_activity"])


def is_idle(activity: Activity | None, limits: Limits) -> bool:
    """Tell whether GPUs did next to nothing: neither SMs nor tensor cores were active."""
    if activity is None:
        return False
    level = activity.tensor if activity.sm is None else activity.sm
    return level is not None and level < limits["gpu.idle_activity"]


def _is_trainer(role: str) -> bool:
    return role in TRAINER_ROLES


def _idle_of_gpus(gpus: Sequence[GpuFacts], *, trainer: bool) -> float | None:
    known = [
        gpu.idle_s for gpu in gpus if gpu.idle_s is not None and _is_trainer(gpu.role) == trainer
    ]
    return math.fsum(known) if known else None


def _idle_of_windows(
    windows: Sequence[GpuWindow], limits: Limits, *, trainer: bool
) -> float | None:
    idle, busy = limits["gpu.idle_activity"], limits["gpu.busy_activity"]
    known = [
        window.gpu_count * window.seconds * _idle_part(window.sm_active_ratio, idle, busy)
        for window in windows
        if window.sm_active_ratio is not None and _is_trainer(window.role) == trainer
    ]
    return math.fsum(known) if known else None


def _idle_part(activity: float, idle: float, busy: float) -> float:
    if activity <= idle:
        return 1.0
    return max(0.0, (busy - activity) / max(busy - idle, 1e-9))


def _mean(windows: Sequence[GpuWindow], name: str) -> float | None:
    known = [(value, w) for w in windows if (value := getattr(w, name)) is not None]
    weight = sum(window.gpu_count * window.seconds for _, window in known)
    if not weight:
        return None
    return math.fsum(value * w.gpu_count * w.seconds for value, w in known) / weight
