"""What is usual for an attempt, at hand when one of its steps closes.

The store is asked once for an attempt; what closes afterwards is noted as it is judged.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from longpole_server.analysis.step_table import StepTable
from longpole_server.diagnosis.baseline import (
    BASELINE_STEPS,
    Baseline,
    describe_configuration,
    has_gpu_count,
    summarise_past,
    without_windows,
)
from longpole_server.model.facts import RunFacts
from longpole_server.model.step import Step

# Step numbers that are searched for the first steady steps, and for those before a step.
_REACH = 2 * BASELINE_STEPS
# Bounds of the newest steps that are kept of an attempt, and of attempts.
_MAX_NEWEST = 3 * BASELINE_STEPS
_MAX_ATTEMPTS = 64


@dataclass(slots=True)
class _Past:
    """Closed steps of one attempt, without their windows.

    Attributes:
        first_step: Its first number.
        opening: The steps of its first `_REACH` numbers.
        newest: Its newest steps.
        newest_from: From this number on, `newest` holds every step.
        frozen: Complete references by configuration and number of GPUs.
    """

    first_step: int
    opening: dict[int, Step]
    newest: dict[int, Step]
    newest_from: int
    frozen: dict[tuple[str, int | None], Baseline] = field(
        default_factory=dict[tuple[str, int | None], Baseline]
    )

    def keep(self, step: Step) -> None:
        """Add a step, or its newer version."""
        bare = without_windows(step)
        if step.step <= self.first_step + _REACH:
            self.opening[step.step] = bare
        self.newest[step.step] = bare
        while len(self.newest) > _MAX_NEWEST:
            del self.newest[min(self.newest)]
            self.newest_from = min(self.newest)

    def list_known(self, gpu_count: int | None) -> list[Step]:
        """Return the kept steps of one number of GPUs, in order."""
        steps = {**self.opening, **self.newest}
        return [steps[at] for at in sorted(steps) if has_gpu_count(steps[at], gpu_count)]

    def knows_before(self, step: int) -> bool:
        """Tell whether the steps just before one are all kept."""
        opening_ends = self.first_step + _REACH
        reaches_back = max(self.first_step, step - BASELINE_STEPS)
        return step <= opening_ends + 1 or self.newest_from <= reaches_back


class StoredSteps(Protocol):
    """Where steps are read, as `longpole_server.read.Reader` does it."""

    def list_steps(
        self, run_id: str, first: int | None = None, last: int | None = None
    ) -> Sequence[Step]:
        """Return the steps of an inclusive range, the latest attempt of each, in order."""
        ...

    def list_last_steps(self, run_id: str, count: int) -> Sequence[Step]:
        """Return the last closed steps, in order."""
        ...


class BaselineReader:
    """Reads and keeps baselines. Thread-safe.

    Args:
        reader: Reads the store.
    """

    def __init__(self, reader: StoredSteps) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._pasts: OrderedDict[tuple[str, int], _Past] = OrderedDict()

    def read(
        self, run: RunFacts, attempt: int, first_step: int, judged: Sequence[Step] = ()
    ) -> Baseline | None:
        """Return what was usual when an attempt began, and just before the judged steps.

        Args:
            run: What the attempt says about itself.
            attempt: The attempt.
            first_step: Its first step.
            judged: The steps to compare, in order; those of other attempts do not matter.

        Raises:
            StoreError: The database failed.
        """
        table = StepTable.of(judged)
        mine = table.where(table.attempts == attempt)
        counts = mine.known("gpu_count")
        gpu_count = int(counts[-1]) if counts else None
        configuration = describe_configuration(run)
        past = self._get_past(run.run_id, attempt, first_step)
        frozen = self._freeze(past, attempt, configuration, gpu_count)
        if frozen is None or not mine:
            return frozen
        before = self._list_before(past, run.run_id, attempt, int(mine.numbers[0]), gpu_count)
        recent = summarise_past(before[-BASELINE_STEPS:], {attempt: first_step}, configuration)
        return replace(frozen, recent=recent)

    def note(self, step: Step) -> None:
        """Take note of a step that was judged."""
        with self._lock:
            past = self._pasts.get((step.run_id, step.attempt))
            if past is not None:
                past.keep(step)

    def _get_past(self, run_id: str, attempt: int, first_step: int) -> _Past:
        key = (run_id, attempt)
        with self._lock:
            known = self._pasts.get(key)
            if known is not None and known.first_step == first_step:
                self._pasts.move_to_end(key)
                return known
        opening = self._reader.list_steps(run_id, first_step, first_step + _REACH)
        newest = self._reader.list_last_steps(run_id, _MAX_NEWEST)
        past = _Past(
            first_step,
            opening={step.step: step for step in _of_attempt(opening, attempt)},
            newest={step.step: step for step in _of_attempt(newest, attempt)},
            newest_from=newest[0].step if len(newest) == _MAX_NEWEST else first_step,
        )
        with self._lock:
            # An earlier first step turned up: of steps that come all at once the last is judged
            # first, and what was judged meanwhile may not be stored yet.
            for step in [] if known is None else known.list_known(None):
                past.keep(step)
            self._pasts[key] = past
            while len(self._pasts) > _MAX_ATTEMPTS:
                self._pasts.popitem(last=False)
        return past

    def _freeze(
        self, past: _Past, attempt: int, configuration: str, gpu_count: int | None
    ) -> Baseline | None:
        key = (configuration, gpu_count)
        with self._lock:
            known = past.frozen.get(key)
            steps = [] if known is not None else past.list_known(gpu_count)
        if known is not None:
            return known
        # The attempt's first step warms up and is left out.
        steady = [step for step in steps if step.step != past.first_step]
        frozen = summarise_past(steady[:BASELINE_STEPS], {attempt: past.first_step}, configuration)
        if frozen is not None and frozen.num_steps >= BASELINE_STEPS:
            with self._lock:
                past.frozen[key] = frozen
        return frozen

    def _list_before(
        self, past: _Past, run_id: str, attempt: int, step: int, gpu_count: int | None
    ) -> list[Step]:
        with self._lock:
            known = past.list_known(gpu_count) if past.knows_before(step) else None
        if known is None:
            stored = self._reader.list_steps(run_id, step - _REACH, step - 1)
            known = [s for s in _of_attempt(stored, attempt) if has_gpu_count(s, gpu_count)]
        return [earlier for earlier in known if earlier.step < step]


def _of_attempt(steps: Iterable[Step], attempt: int) -> list[Step]:
    return [
        without_windows(step)
        for step in steps
        if step.attempt == attempt and step.closed_by is not None
    ]
