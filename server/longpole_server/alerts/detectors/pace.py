"""Throughput and weight sync against what this run usually does."""

import math
import statistics
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole.conventions.stages import UPDATE_WEIGHTS
from longpole_server.alerts.detectors.threshold import compare
from longpole_server.alerts.history import History, StepPoint
from longpole_server.alerts.inputs import (
    measure_spread,
    read_figure,
    read_newest,
    read_opening,
    read_series,
)
from longpole_server.alerts.rule import Judgement, not_judgeable

_THROUGHPUT = "throughput_tokens_per_s_per_gpu"
_LENGTH = "response_length_mean"
_TOKENS = "tokens_total"


@dataclass(frozen=True, slots=True)
class _Shape:
    """Something about the work that may explain a fall.

    Attributes:
        lowest, highest: Between these lies by what power of it throughput may change at all.
        assumed: The power that counts where the run itself does not tell: in doubt it explains.
    """

    name: str
    label: str
    lowest: float
    highest: float
    assumed: float


_SHAPES = (
    # Decoding slows down at most in proportion to the length of the context.
    _Shape(_LENGTH, "responses got longer", -1.0, 0.0, -1.0),
    # A step's fixed costs weigh on fewer tokens.
    _Shape(_TOKENS, "steps hold fewer tokens", 0.0, 1.0, 1.0),
    _Shape("engines/running", "fewer samples run at once", 0.0, 1.0, 1.0),
)
# With a standard error beyond this a power is not told by the run; within it, what explains more
# counts as far as two of them.
_MAX_ERROR = 0.15
_MIN_FITTED = 20
_MAX_CONDITION = 1e3
# Part of the tokens' fall (in logarithms) that lengths or seconds of the step must share.
_FOLLOWS = {_LENGTH: 0.7, "step_duration_s": 0.3}
_SYNC_SECONDS = f"stage_s/{UPDATE_WEIGHTS}"
# Newest steps that are looked at.
_PAST_STEPS = 60
# Standard deviation of a median, as a multiple of that of the mean.
_DEVIATION_OF_MEDIAN = 1.2533
# The part of a fall that the shape of the work must explain to count as its cause.
_EXPLAINED = 0.7


@dataclass(frozen=True, slots=True)
class ThroughputFall:
    """Throughput below its reference, unless the shape of the work explains most of the fall.

    Attributes:
        fire_ratio, clear_ratio: Parts of the reference.
        recent: Newest steps whose median is judged.
        deviations: A fall within so many of the median's own standard deviations is scatter.
        frozen: Compared with the first steady steps, else with the twenty before the recent ones.
    """

    fire_ratio: float
    clear_ratio: float
    recent: int
    frozen: bool
    deviations: float = 4.0
    min_reference: int = 10
    fire: float | None = None
    clear: float | None = None
    unit: str = "tokens/s/GPU"
    reads: tuple[str, ...] = (_THROUGHPUT, *(shape.name for shape in _SHAPES))

    def judge(self, history: History) -> Judgement:
        """Judge the newest steps."""
        recent, reference = self._split(history, _THROUGHPUT)
        if len(recent) < self.recent or len(reference) < self.min_reference:
            return not_judgeable(
                f"{len(reference)} of {self.min_reference} reference steps are known", self.unit
            )
        value = statistics.median(recent)
        usual, deviation = measure_spread(reference)
        # How far the median of so few steps strays by itself.
        stray = self.deviations * _DEVIATION_OF_MEDIAN * deviation / math.sqrt(self.recent)
        fire = min(self.fire_ratio * usual, usual - stray)
        judgement = compare(
            value,
            fire,
            max(fire, min(self.clear_ratio * usual, (usual + fire) / 2)),
            self.unit,
            "below",
            baseline=usual,
            words={"fall": f"{100 * (1 - value / usual):.0f} %" if usual > 0 else "unknown"},
        )
        if not judgement.firing:
            return judgement
        explained = self._explain(history, value / usual)
        if explained is None:
            return judgement
        return Judgement(
            False, True, value, judgement.threshold, self.unit, usual, quiet_because=explained
        )

    def _split(self, history: History, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return a figure over the newest steps, and over those they are compared with."""
        steps = history.steps[-_PAST_STEPS:]
        newest, before = steps[-self.recent :], steps[2 : -self.recent]
        recent = read_series(newest, name).values
        if not self.frozen:
            return recent, read_series(before, name).values[-20:]
        first = newest[0].step.step if newest else 0
        opening = [point for point in history.opening if point.step.step < first]
        return recent, read_series(opening, name).values[2:22]

    def _explain(self, history: History, ratio: float) -> str | None:
        """Say which changes of the work's shape explain the fall, None when they do not."""
        powers = _fit_powers(history)
        explained, reasons = 0.0, list[str]()
        for shape in _SHAPES:
            recent, reference = self._split(history, shape.name)
            if len(recent) < self.recent or len(reference) < self.min_reference:
                continue
            usual, now = statistics.median(reference), statistics.median(recent)
            if usual <= 0 or now <= 0:
                continue
            if shape.name == _TOKENS and not self._holds_less(history, now / usual):
                continue
            part = powers.get(shape.name, shape.assumed) * math.log(now / usual) / math.log(ratio)
            if part > 0:
                explained += part
                reasons.append(f"{shape.label} ({usual:.0f} to {now:.0f})")
        if explained < _EXPLAINED:
            return None
        part = 100 * min(1.0, explained)
        return f"benign: {' and '.join(reasons)}, which explains {part:.0f} % of the fall"

    def _holds_less(self, history: History, tokens_ratio: float) -> bool:
        """Tell whether steps hold fewer tokens because less is asked of them.

        Where steps last as long as before and responses are no shorter, fewer tokens are what a
        fall of throughput looks like, and no reason for it.
        """
        if tokens_ratio >= 1:
            return False
        for name in (_LENGTH, "step_duration_s"):
            recent, reference = self._split(history, name)
            if not recent or not reference:
                continue
            before, after = statistics.median(reference), statistics.median(recent)
            if before > 0 and after > 0:
                shrunk = math.log(after / before) / math.log(tokens_ratio)
                if shrunk >= _FOLLOWS[name]:
                    return True
        return False


def _fit_powers(history: History) -> dict[str, float]:
    """Return by what power of each shape throughput changes in this run, where that is certain.

    Least squares of the logarithms, with time among the regressors: what merely grows with time
    is no proof of a cause.
    """
    steps = history.steps
    columns: dict[str, list[float | None]] = {
        name: [_log_of(point, name) for point in steps]
        for name in (_THROUGHPUT, *(shape.name for shape in _SHAPES))
    }
    names = [
        shape.name
        for shape in _SHAPES
        if sum(value is not None for value in columns[shape.name]) > len(steps) / 2
    ]
    rows = [
        [float(index), *known]
        for index in range(len(steps))
        if len(
            known := [
                value
                for name in (_THROUGHPUT, *names)
                if (value := columns[name][index]) is not None
            ]
        )
        == len(names) + 1
    ]
    if not names or len(rows) < max(_MIN_FITTED, 3 * len(names)):
        return {}
    table = np.array(rows)
    design: NDArray[np.float64] = np.column_stack([np.ones(len(rows)), table[:, 0] / len(steps)])
    told: list[str] = []
    for index, name in enumerate(names, 2):
        column = table[:, index] - table[:, index].mean()
        wider = np.column_stack([design, column / max(1e-12, float(np.abs(column).max()))])
        # What moves exactly as another does tells nothing beside it.
        if float(np.linalg.cond(wider)) < _MAX_CONDITION:
            design, told = np.column_stack([design, column]), [*told, name]
    if not told:
        return {}
    solved = np.linalg.lstsq(design, table[:, 1], rcond=None)[0]
    left = table[:, 1] - design @ solved
    scatter = float(left @ left) / (len(rows) - design.shape[1])
    inverse = np.linalg.pinv(design)
    errors = np.sqrt(scatter * np.square(inverse).sum(axis=1))
    bounds = {shape.name: shape for shape in _SHAPES}
    return {
        name: min(
            bounds[name].highest,
            max(
                bounds[name].lowest,
                float(solved[index]) + math.copysign(2.0, bounds[name].assumed) * error,
            ),
        )
        for index, name in enumerate(told, 2)
        if (error := float(errors[index])) <= _MAX_ERROR
    }


def _log_of(point: StepPoint, name: str) -> float | None:
    value = read_figure(point, name)
    return math.log(value) if value is not None and math.isfinite(value) and value > 0 else None


@dataclass(frozen=True, slots=True)
class SyncSlow:
    """A weight sync that takes far longer than the first ones did, and long enough to matter.

    Attributes:
        deviations: Of the first ones' own scatter.
        min_seconds: Longer than usual, least.
        reference_steps: Syncs that make the past, after the first two; until there are so many,
            those before the newest three.
    """

    fire_ratio: float = 2.0
    deviations: float = 6.0
    min_seconds: float = 5.0
    min_steps: int = 10
    reference_steps: int = 20
    fire: float | None = None
    clear: float | None = None
    unit: str = "s"
    reads: tuple[str, ...] = (_SYNC_SECONDS,)

    def judge(self, history: History) -> Judgement:
        """Judge the newest step by the first ones."""
        value = read_newest(history, _SYNC_SECONDS)
        if value is None:
            is_reported = bool(read_series(history.steps[-_PAST_STEPS:], _SYNC_SECONDS).values)
            why = "this step has no weight sync" if is_reported else "no weight sync is reported"
            return not_judgeable(why, self.unit)
        past = read_opening(history, _SYNC_SECONDS)[2 : 2 + self.reference_steps]
        if len(past) < self.reference_steps:
            past = read_series(history.steps[-_PAST_STEPS:-3], _SYNC_SECONDS).values[2:]
        if len(past) < self.min_steps:
            return not_judgeable(f"{len(past)} of {self.min_steps} syncs are known", self.unit)
        usual, deviation = measure_spread(past)
        fire = max(
            self.fire_ratio * usual,
            usual + self.min_seconds,
            usual + self.deviations * deviation,
        )
        return compare(value, fire, (usual + fire) / 2, self.unit, baseline=usual)
