"""By what power of the shape of its work a run's throughput changes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.inputs import read_figure

THROUGHPUT = "throughput_tokens_per_s_per_gpu"
LENGTH = "response_length_mean"
TOKENS = "tokens_total"


@dataclass(frozen=True, slots=True)
class Shape:
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


SHAPES = (
    # Decoding slows down at most in proportion to the length of the context.
    Shape(LENGTH, "responses got longer", -1.0, 0.0, -1.0),
    # A step's fixed costs weigh on fewer tokens.
    Shape(TOKENS, "steps hold fewer tokens", 0.0, 1.0, 1.0),
    Shape("engines/running", "fewer samples run at once", 0.0, 1.0, 1.0),
)
_NAMES = tuple(shape.name for shape in SHAPES)
_LOG, _FITTED = "log of ", "power of shape"
# With a standard error beyond this a power is not told by the run; within it, what explains more
# counts as far as so many of them. A run is looked at in every step: the worst look of one in a
# hundred runs strays by three.
_MAX_ERROR = 0.15
_ERRORS = 3.0
_MIN_FITTED = 20
_MAX_CONDITION = 1e3
# Beyond this a residual hardly differs from the one before: there is nothing left to tell by.
_MAX_MEMORY = 0.95

_Floats = NDArray[np.float64]


def fit_powers(steps: Sequence[StepPoint]) -> dict[str, float]:
    """Return by what power of each shape throughput changes in this run, where that is certain.

    Least squares of the logarithms, with time among the regressors: what merely grows with time
    is no proof of a cause. Of the powers that the run leaves possible it is the one that explains
    most of a fall. What was found is kept beside the newest step: two rules ask for it.
    """
    if not steps:
        return {}
    kept = steps[-1].figures
    if _FITTED not in kept:
        found = _fit_powers(steps)
        kept |= {_FITTED: float(len(steps)), **{f"{_FITTED}/{name}": found[name] for name in found}}
    powers = {shape.name: kept.get(f"{_FITTED}/{shape.name}") for shape in SHAPES}
    return {name: power for name, power in powers.items() if power is not None}


def _fit_powers(steps: Sequence[StepPoint]) -> dict[str, float]:
    logs = {name: [_read_log(point, name) for point in steps] for name in (THROUGHPUT, *_NAMES)}
    # Shapes that most of the steps report.
    names = [name for name in _NAMES if sum(log is not None for log in logs[name]) > len(steps) / 2]
    rows = [
        [float(index), *known]
        for index, row in enumerate(
            zip(logs[THROUGHPUT], *(logs[name] for name in names), strict=True)
        )
        if len(known := [log for log in row if log is not None]) == len(row)
    ]
    if not names or len(rows) < max(_MIN_FITTED, 3 * len(names)):
        return {}
    table = np.array(rows)
    design, told = _choose_columns(table, names)
    if not told:
        return {}
    solved, errors = _fit_with_memory(design, table[:, 1])
    shapes = {shape.name: shape for shape in SHAPES}
    return {
        name: _bound(shapes[name], float(solved[index]), float(errors[index]))
        for index, name in enumerate(told, 2)
        if float(errors[index]) <= _MAX_ERROR
    }


def _read_log(point: StepPoint, name: str) -> float | None:
    """Return the logarithm of a figure of a step, None where it has none; kept beside the step."""
    key = _LOG + name
    figures = point.figures
    if key not in figures:
        value = read_figure(point, name)
        has_log = value is not None and math.isfinite(value) and value > 0
        figures[key] = math.log(value) if value is not None and has_log else None
    return figures[key]


def _choose_columns(table: _Floats, names: Sequence[str]) -> tuple[_Floats, list[str]]:
    """Return the regressors, level and time first, and which shapes are among them."""
    at = table[:, 0] / max(1.0, float(table[-1, 0]))
    design: _Floats = np.column_stack([np.ones(len(table)), at])
    told: list[str] = []
    for index, name in enumerate(names, 2):
        column = table[:, index] - table[:, index].mean()
        wider = np.column_stack([design, column / max(1e-12, float(np.abs(column).max()))])
        # What moves exactly as another does tells nothing beside it.
        if float(np.linalg.cond(wider)) < _MAX_CONDITION:
            design, told = np.column_stack([design, column]), [*told, name]
    return design, told


def _fit_with_memory(design: _Floats, values: _Floats) -> tuple[_Floats, _Floats]:
    """Return coefficients and their standard errors.

    Residuals that remember the step before are whitened first (Cochrane and Orcutt 1949): without
    that the errors come out too small.
    """
    left = values - design @ _solve(design, values)
    power = float(left @ left)
    memory = float(left[1:] @ left[:-1]) / power if power > 0 else 0.0
    memory = min(_MAX_MEMORY, max(0.0, memory))
    design, values = design[1:] - memory * design[:-1], values[1:] - memory * values[:-1]
    solved = _solve(design, values)
    left = values - design @ solved
    scatter = float(left @ left) / max(1, len(values) - design.shape[1])
    errors: _Floats = np.sqrt(scatter * np.square(np.linalg.pinv(design)).sum(axis=1))
    return solved, errors


def _solve(design: _Floats, values: _Floats) -> _Floats:
    return np.asarray(np.linalg.lstsq(design, values, rcond=None)[0], dtype=np.float64)


def _bound(shape: Shape, power: float, error: float) -> float:
    explaining = power + math.copysign(_ERRORS, shape.assumed) * error
    return min(shape.highest, max(shape.lowest, explaining))
