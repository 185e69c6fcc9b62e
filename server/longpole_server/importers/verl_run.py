"""What the keys of a log tell: verl's trainer generation and mode, the number of GPUs."""

import statistics
from collections.abc import Iterable, Mapping

from longpole.conventions.metrics import read_metric
from longpole_server.analysis.modes import infer_mode
from longpole_server.analysis.scalar_ledger import read_step_seconds
from longpole_server.importers.logged import has_step_total

# A derived GPU count must be this close to a whole number to be believed.
_WHOLE_TOLERANCE = 0.02
# No cluster is larger: what gives more is no count.
_MAX_GPUS = 1_000_000


# Versions by which the oldest part of a sample lags behind; 0 in the synchronous trainer.
_STALENESS = "training/off_policy/trajectory_staleness_worst/max"


class ModeWatch:
    """Finds out `rl.mode` from what steps log.

    Most trainers of the asynchronous modes write names of their own. The default trainer does not
    where it switches no GPUs between its sides: there only the age of the samples tells that it
    is asynchronous, and not which of two modes it is.
    """

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._is_stale = False

    def add(self, scalars: Mapping[str, float]) -> None:
        """Look at one step's scalars."""
        self._keys.update(scalars)
        self._is_stale = self._is_stale or scalars.get(_STALENESS, 0.0) > 0

    @property
    def mode(self) -> str | None:
        """The mode, None when there are no timings or several modes fit."""
        if (mode := self.asynchronous_mode) is not None:
            return mode
        return "sync" if has_step_total(self._keys) and not self._is_stale else None

    @property
    def asynchronous_mode(self) -> str | None:
        """The mode that names of its own betray, None when there are none."""
        return infer_mode(self._keys)

    @property
    def is_ambiguous(self) -> bool:
        """Whether it is one of two asynchronous modes, nobody knows which."""
        return self._is_stale and infer_mode(self._keys) is None


def derive_gpu_count(scalars: Mapping[str, float]) -> float | None:
    """Return GPUs = tokens / (step seconds x tokens/s/GPU), None when one is missing."""
    tokens = read_metric("tokens_total", scalars)
    throughput = read_metric("throughput", scalars)
    if not tokens or not throughput:
        return None
    seconds = scalars.get("perf/time_per_step") or read_step_seconds(scalars)
    if not seconds:
        return None
    count = tokens / seconds / throughput
    return count if 0 < count <= _MAX_GPUS else None


def agree_on_gpu_count(derived: Iterable[float]) -> tuple[int | None, int]:
    """Return the whole GPU count most steps agree on, and how many steps contradict it."""
    values = list(derived)
    if not values:
        return None, 0
    count = round(statistics.median(values))
    if count < 1:
        return None, len(values)
    contradicting = sum(abs(value - count) > _WHOLE_TOLERANCE * count for value in values)
    if contradicting * 2 > len(values):
        return None, contradicting
    return count, contradicting
