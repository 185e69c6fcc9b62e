"""Figures of a step by name, and what is usual among them."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longpole.conventions.metrics import METRICS, read_metric
from longpole_server.alerts.history import History, StepPoint
from longpole_server.analysis.mfu import usable_mfu

# A robust standard deviation is so many median absolute deviations.
DEVIATION_OF_MAD = 1.4826
# Figures of a step that are no logged scalars.
_OF_STEP: dict[str, Callable[[StepPoint], float | None]] = {
    "step_duration_s": lambda point: point.step.duration_s,
    "throughput_tokens_per_s_per_gpu": (lambda point: point.step.throughput_tokens_per_s_per_gpu),
    "tokens_total": lambda point: point.step.tokens_total,
    "mfu_actor": lambda point: usable_mfu(point.step.mfu_actor),
    "mfu_infer": lambda point: usable_mfu(point.step.mfu_infer),
    "mfu_step": lambda point: usable_mfu(point.step.mfu_step),
    "unattributed_s": lambda point: point.step.unattributed_s,
    "engines/running": lambda point: _sum_running(point),
}
_STAGE_SECONDS = "stage_s/"
_STAGE_SHARE = "share/"
_UNIT_OF_STEP = {
    "step_duration_s": "s",
    "throughput_tokens_per_s_per_gpu": "tokens/s/GPU",
    "tokens_total": "tokens",
    "unattributed_s": "s",
    "engines/running": "requests",
}


def read_figure(point: StepPoint, name: str) -> float | None:
    """Return a figure of a step: a field of it, `stage_s/<stage>`, `share/<stage>`, or a scalar.

    Canonical metrics are found under the names that frameworks give them. What is not finite is
    returned as it is.
    """
    figures = point.figures
    if name not in figures:
        figures[name] = _find_figure(point, name)
    return figures[name]


def _find_figure(point: StepPoint, name: str) -> float | None:
    own = _OF_STEP.get(name)
    if own is not None:
        value = own(point)
        if value is not None:
            return value
    if name.startswith(_STAGE_SECONDS):
        stage = point.step.stage(name.removeprefix(_STAGE_SECONDS))
        return stage.exclusive_s if stage is not None else None
    if name.startswith(_STAGE_SHARE):
        stage = point.step.stage(name.removeprefix(_STAGE_SHARE))
        return stage.share_ratio if stage is not None else None
    if name in METRICS:
        return read_metric(name, point.scalars)
    return point.scalars.get(name)


def is_timed(name: str) -> bool:
    """Tell whether a figure is measured from the times of a step, not logged."""
    return name in _OF_STEP or name.startswith((_STAGE_SECONDS, _STAGE_SHARE))


def unit_of(name: str) -> str:
    """Return the unit of a figure, `1` where nothing is known."""
    if name in METRICS:
        return METRICS[name].unit
    return "s" if name.startswith(_STAGE_SECONDS) else _UNIT_OF_STEP.get(name, "1")


def label_of(name: str) -> str:
    """Return a figure's name for people."""
    return METRICS[name].label if name in METRICS else name


@dataclass(frozen=True, slots=True)
class Series:
    """A figure over the steps that report it, finite values only."""

    steps: tuple[int, ...]
    values: tuple[float, ...]

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.values)


def read_series(points: Sequence[StepPoint], name: str) -> Series:
    """Return a figure over steps; those without it are left out."""
    known = [
        (point.step.step, value)
        for point, value in zip(points, _look_up(points, name), strict=True)
        if value is not None and math.isfinite(value)
    ]
    return Series(tuple(step for step, _ in known), tuple(value for _, value in known))


def read_values(points: Sequence[StepPoint], name: str) -> tuple[float, ...]:
    """Return the values of a figure over steps; those without a finite one are left out."""
    is_finite = math.isfinite
    return tuple(
        [value for value in _look_up(points, name) if value is not None and is_finite(value)]
    )


def _look_up(points: Sequence[StepPoint], name: str) -> list[float | None]:
    """Return a figure of each step."""
    try:
        # Every rule reads whole series in every step: what is known already is not asked for.
        return [point.figures[name] for point in points]
    except KeyError:
        return [read_figure(point, name) for point in points]


def read_newest(history: History, name: str) -> float | None:
    """Return a figure of the judged step, None when it does not report it or it is not finite."""
    if history.newest is None:
        return None
    value = read_figure(history.newest, name)
    return value if value is not None and math.isfinite(value) else None


def read_opening(history: History, name: str) -> tuple[float, ...]:
    """Return a figure over the first steps of the attempt, those before the judged one."""
    newest = history.newest
    judged = newest.step.step if newest is not None else 0
    return read_values([each for each in history.opening if each.step.step < judged], name)


def measure_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the robust standard deviation from the median absolute deviation."""
    middle = statistics.median(values)
    mad = statistics.median([abs(value - middle) for value in values])
    return middle, DEVIATION_OF_MAD * mad


def _sum_running(point: StepPoint) -> float | None:
    """Return how many requests the engines ran at once, summed; None where none says."""
    known = [each.running_mean for each in point.engines.values() if each.running_mean is not None]
    return sum(known) if known else None
