"""Logged metrics of a run, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumns:
    """One metric over the steps of a run, in their order: one value of each array a step."""

    name: str
    steps: NDArray[np.int64]
    ts_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.steps)


@dataclass(frozen=True, slots=True, eq=False)
class MetricColumnsPage:
    """Some of a run's metrics. `following`: number of the first that is left; None at the end."""

    metrics: tuple[MetricColumns, ...]
    following: int | None
