"""Records of experiment trackers: whose step they name, and under which names they come.

wandb, TensorBoard, MLflow and CSV exports hold what any framework logged, with prefixes and step
axes of its own. What is made of it here has the names of the framework's console.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from longpole_server.importers.logged import MAX_STEP, LogLine
from longpole_server.importers.prime_rl import name_orchestrator

# Step axes that records name themselves, most trusted first.
# open-instruct's `global_step` counts episodes.
_AXES = (
    "training_step",
    "rollout/step",
    "train/global_step",
    "trainer/global_step",
    "global_step",
    "step",
)
_SLIME_TRAIN_AXIS, _SLIME_EVAL_AXIS = "train/step", "eval/step"
# Names that are no metrics.
_HOUSEKEEPING = frozenset({*_AXES, _SLIME_TRAIN_AXIS, _SLIME_EVAL_AXIS, "_step", "_runtime"})
_TIMESTAMP = "_timestamp"
# TRL logs its timed blocks call by call, in records of their own.
_PROFILING = "profiling/"
# TRL and OpenRLHF log under `train/` to trackers what they print without it.
_PREFIX = "train/"
_PREFIXED = ("train/timing/", "train/completions/", "train/step_time", "train/rollout/")
_SLIME_TIMERS = ("perf/train_time", "perf/step_time", "perf/train_wait_time")
_MAX_HELD = 4096


@dataclass(frozen=True, slots=True)
class Tracked:
    """A record of a tracker.

    Attributes:
        step: The tracker's own step, None when it keeps none.
        time_ns: UTC nanoseconds, None when unknown.
    """

    step: int | None
    values: Mapping[str, float]
    time_ns: int | None = None


@dataclass(slots=True)
class TrackedReader:
    """Turns records into lines of steps.

    Records of slime's optimiser steps are averaged into their rollout. TRL's timed blocks belong
    to the record that follows: summed, and divided among the steps that it stands for.
    """

    _step: int | None = None
    _optimiser_steps: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    _blocks: dict[str, float] = field(default_factory=dict[str, float])

    def take(self, record: Tracked) -> Iterator[LogLine]:
        """Yield the line that a record makes; none when it waits for another."""
        values = record.values
        if _SLIME_TRAIN_AXIS in values and "rollout/step" not in values:
            if len(self._optimiser_steps) < _MAX_HELD:
                self._optimiser_steps.append(values)
            return
        axis = next((name for name in (*_AXES, _SLIME_EVAL_AXIS) if name in values), None)
        scalars = strip_prefix({name: v for name, v in values.items() if name not in _HOUSEKEEPING})
        scalars.pop(_TIMESTAMP, None)
        if scalars and all(name.startswith(_PROFILING) for name in scalars):
            # Whatever step it names, wandb repeated it from the record before.
            self._hold(scalars)
            return
        step = record.step if axis is None else round(values[axis])
        if step is None or not scalars or not 0 <= step <= MAX_STEP:
            return
        if any(timer in scalars for timer in _SLIME_TIMERS):
            scalars = average(self._optimiser_steps) | scalars
            self._optimiser_steps = []
        yield LogLine(
            step, name_orchestrator(self._take_blocks(step) | scalars), time_ns=record.time_ns
        )

    def _hold(self, blocks: Mapping[str, float]) -> None:
        for name, seconds in blocks.items():
            if name in self._blocks or len(self._blocks) < _MAX_HELD:
                self._blocks[name] = self._blocks.get(name, 0.0) + seconds

    def _take_blocks(self, step: int) -> dict[str, float]:
        """Return the seconds of one step's blocks; nobody knows of how many the first ones are."""
        before, self._step = self._step, step
        num_steps = step - (0 if before is None else before)
        if num_steps <= 0:
            # An evaluation, or a training that was started again.
            return {}
        blocks, self._blocks = self._blocks, {}
        if before is None and step != 1:
            return {}
        return {name: seconds / num_steps for name, seconds in blocks.items()}


def average(steps: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the means over the optimiser steps of a rollout; their own number is none."""
    names = {name: None for values in steps for name in values if name not in _HOUSEKEEPING}
    names.pop(_TIMESTAMP, None)
    return {
        name: math.fsum(values[name] for values in steps if name in values)
        / sum(name in values for values in steps)
        for name in names
    }


def strip_prefix(values: dict[str, float]) -> dict[str, float]:
    """Return the names as their framework prints them on its console."""
    if not any(name.startswith(_PREFIXED) for name in values):
        return values
    return {name.removeprefix(_PREFIX): value for name, value in values.items()}
