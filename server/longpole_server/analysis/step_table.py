"""Steps of one run as columns, so that a window of ten thousand is summed in milliseconds.

A table is a sequence of steps: it is made from steps, or from columns that the store read, and
then makes a step when somebody asks for one. What is not known is NaN in a column of numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from longpole.conventions import stages
from longpole_server.model.step import (
    ClosedBy,
    Confidence,
    Note,
    OutsideStage,
    StageTime,
    Step,
)

Column = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.intp]
_Objects = NDArray[np.object_]

# Fields of a step that are columns of numbers; those of `_WHOLE` are whole numbers.
NUMBERS = (
    "duration_s",
    "unattributed_s",
    "tokens_total",
    "throughput_tokens_per_s_per_gpu",
    "mfu_actor",
    "mfu_infer",
    "mfu_step",
    "gpu_count",
    "tokens_response",
    "response_length_mean",
    "response_length_max",
)
_WHOLE = frozenset({"tokens_total", "gpu_count", "tokens_response"})


@dataclass(frozen=True, slots=True)
class StepColumns:
    """What the store reads of many steps, one entry a step.

    Attributes:
        numbers: By name, those of `NUMBERS`.
        exclusive_s, inclusive_s: Seconds by stage, NaN where a step does not have it.
        is_scalar: By stage, whether its seconds come from a scalar.
        outside_s: Seconds by stage that ran between steps, NaN where none did.
        start_ns, end_ns: `end_ns` is 0 while a step is open.
        closed_by, verdicts, confidences: Text or None.
        notes: Tuples of notes.
    """

    run_id: str
    steps: Numbers
    attempts: Numbers
    start_ns: Numbers
    end_ns: Numbers
    numbers: Mapping[str, Column]
    exclusive_s: Mapping[str, Column]
    inclusive_s: Mapping[str, Column]
    is_scalar: Mapping[str, Flags]
    outside_s: Mapping[str, Column]
    closed_by: _Objects
    verdicts: _Objects
    confidences: _Objects
    notes: _Objects

    def take(self, rows: Rows) -> "StepColumns":
        """Return some rows, in that order."""

        def pick(columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {name: column[rows] for name, column in columns.items()}

        return StepColumns(
            self.run_id,
            self.steps[rows],
            self.attempts[rows],
            self.start_ns[rows],
            self.end_ns[rows],
            pick(self.numbers),
            pick(self.exclusive_s),
            pick(self.inclusive_s),
            pick(self.is_scalar),
            pick(self.outside_s),
            self.closed_by[rows],
            self.verdicts[rows],
            self.confidences[rows],
            self.notes[rows],
        )

    def extended(self, other: "StepColumns") -> "StepColumns":
        """Return these steps and those of another after them."""
        count, more = len(self.steps), len(other.steps)

        def join(
            mine: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]], absent: object
        ) -> dict[str, NDArray[Any]]:
            return {
                name: np.concatenate(
                    [
                        mine[name] if name in mine else np.full(count, absent),
                        theirs[name] if name in theirs else np.full(more, absent),
                    ]
                )
                for name in dict.fromkeys((*mine, *theirs))
            }

        return StepColumns(
            self.run_id or other.run_id,
            np.concatenate([self.steps, other.steps]),
            np.concatenate([self.attempts, other.attempts]),
            np.concatenate([self.start_ns, other.start_ns]),
            np.concatenate([self.end_ns, other.end_ns]),
            join(self.numbers, other.numbers, np.nan),
            join(self.exclusive_s, other.exclusive_s, np.nan),
            join(self.inclusive_s, other.inclusive_s, np.nan),
            join(self.is_scalar, other.is_scalar, False),
            join(self.outside_s, other.outside_s, np.nan),
            np.concatenate([self.closed_by, other.closed_by]),
            np.concatenate([self.verdicts, other.verdicts]),
            np.concatenate([self.confidences, other.confidences]),
            np.concatenate([self.notes, other.notes]),
        )


class StepTable(Sequence[Step]):
    """Steps in columns. Immutable; columns are not to be written to.

    A step made from columns has its ledger without the time and place of single windows.

    Args:
        columns: The steps.
        steps: The same as objects, where they are at hand.
    """

    def __init__(self, columns: StepColumns, steps: Sequence[Step] | None = None) -> None:
        self.columns = columns
        self._steps = steps

    @classmethod
    def of(cls, steps: Sequence[Step]) -> "StepTable":
        """Return steps as a table; a table is returned as it is."""
        return steps if isinstance(steps, StepTable) else cls(_make_columns(steps), steps)

    def __len__(self) -> int:
        return len(self.columns.steps)

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> "StepTable": ...
    def __getitem__(self, index: int | slice) -> "Step | StepTable":
        if isinstance(index, slice):
            return self.take(np.arange(len(self), dtype=np.intp)[index])
        if self._steps is not None:
            return self._steps[index]
        return _make_step(self.columns, range(len(self))[index])

    def __iter__(self) -> Iterator[Step]:
        if self._steps is not None:
            return iter(self._steps)
        return (_make_step(self.columns, row) for row in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*cast("Sequence[object]", other)]

    def __hash__(self) -> int:
        return hash((self.columns.run_id, self.columns.steps.tobytes()))

    def take(self, rows: Rows) -> "StepTable":
        """Return some of the steps, in that order."""
        columns = self.columns.take(rows)
        if self._steps is None:
            return StepTable(columns)
        places: list[int] = rows.tolist()
        return StepTable(columns, [self._steps[row] for row in places])

    def where(self, flags: Flags) -> "StepTable":
        """Return the steps for which a flag is set; all of them, and it is the table itself."""
        return self if flags.all() else self.take(np.flatnonzero(flags))

    @property
    def numbers(self) -> Numbers:
        """Numbers of the steps."""
        return self.columns.steps

    @property
    def attempts(self) -> Numbers:
        """The attempt of each step."""
        return self.columns.attempts

    def column(self, name: str) -> Column:
        """Return one of `NUMBERS`, NaN where it is not reported."""
        return self.columns.numbers[name]

    def known(self, name: str) -> list[float]:
        """Return the values of one of `NUMBERS` that are reported."""
        column = self.columns.numbers[name]
        values: list[float] = column[~np.isnan(column)].tolist()
        return values

    @cached_property
    def has_duration(self) -> Flags:
        """Whether each step has seconds to speak of."""
        column = self.columns.numbers["duration_s"]
        return ~np.isnan(column) & (column != 0)

    @cached_property
    def has_stages(self) -> Flags:
        """Whether each step has a stage."""
        found = np.zeros(len(self), dtype=np.bool_)
        for column in self.columns.exclusive_s.values():
            found |= ~np.isnan(column)
        return found

    @cached_property
    def with_notes(self) -> list[tuple[int, tuple[Note, ...]]]:
        """Number and notes of each step that has notes."""
        numbers: list[int] = self.columns.steps.tolist()
        notes: list[tuple[Note, ...]] = self.columns.notes.tolist()
        return [
            (number, of_step) for number, of_step in zip(numbers, notes, strict=True) if of_step
        ]

    def seconds_of(self, stage: str) -> Column:
        """Return the exclusive seconds of a stage, 0 where a step does not have it."""
        column = self.columns.exclusive_s.get(stage)
        return np.zeros(len(self)) if column is None else np.nan_to_num(column, nan=0.0)

    def list_shares(self) -> list[dict[str, float]]:
        """Return the share of each stage a step has, `unattributed` among them, by step."""
        nothing: dict[str, float] = {}
        found = [nothing] * len(self)
        duration_s = np.where(self.has_duration, self.columns.numbers["duration_s"], np.nan)
        names = [*self.columns.exclusive_s, stages.UNATTRIBUTED]
        seconds: NDArray[np.float64] = np.array(
            [
                *self.columns.exclusive_s.values(),
                np.nan_to_num(self.columns.numbers["unattributed_s"], nan=0.0),
            ]
        )
        parts: NDArray[np.float64] = np.divide(seconds, duration_s)
        present = ~np.isnan(seconds)
        for rows in _group_alike(present, self.has_duration):
            places: list[int] = np.flatnonzero(present[:, rows[0]]).tolist()
            kept = [names[place] for place in places]
            values: list[list[float]] = [parts[place, rows].tolist() for place in places]
            for row, shares in zip(rows.tolist(), zip(*values, strict=True), strict=True):
                found[row] = dict(zip(kept, shares, strict=True))
        return found


def _group_alike(present: Flags, chosen: Flags) -> list[Rows]:
    """Return the chosen rows, those together for which the same stages are present.

    Args:
        present: One line a stage, one column a row.
        chosen: One entry a row.
    """
    keys = np.zeros(present.shape[1], dtype=np.int64)
    for line in present:
        # Numbered anew, keys stay as small as there are kinds.
        kinds = np.unique(keys)
        keys = np.searchsorted(kinds, keys) * 2 + line
    return [np.flatnonzero((keys == key) & chosen) for key in np.unique(keys[chosen]).tolist()]


def _make_columns(steps: Sequence[Step]) -> StepColumns:
    count = len(steps)
    exclusive_s: dict[str, Column] = {}
    inclusive_s: dict[str, Column] = {}
    is_scalar: dict[str, Flags] = {}
    outside_s: dict[str, Column] = {}
    for row, step in enumerate(steps):
        for stage in step.stages:
            name = stage.stage
            if name not in exclusive_s:
                exclusive_s[name] = np.full(count, np.nan)
                inclusive_s[name] = np.full(count, np.nan)
                is_scalar[name] = np.zeros(count, dtype=np.bool_)
            exclusive_s[name][row] = stage.exclusive_s
            inclusive_s[name][row] = stage.inclusive_s
            is_scalar[name][row] = stage.source == "scalar"
        for part in step.outside:
            column = outside_s.setdefault(part.stage, np.full(count, np.nan))
            before_s = column[row]
            column[row] = part.duration_s + (0.0 if np.isnan(before_s) else before_s)
    return StepColumns(
        steps[0].run_id if steps else "",
        np.array([step.step for step in steps], dtype=np.int64),
        np.array([step.attempt for step in steps], dtype=np.int64),
        np.array([step.start_ns for step in steps], dtype=np.int64),
        np.array([step.end_ns or 0 for step in steps], dtype=np.int64),
        {
            name: np.array([getattr(step, name) for step in steps], dtype=np.float64)
            for name in NUMBERS
        },
        exclusive_s,
        inclusive_s,
        is_scalar,
        outside_s,
        make_objects([step.closed_by for step in steps]),
        make_objects([step.verdict for step in steps]),
        make_objects([step.confidence for step in steps]),
        make_objects([step.notes for step in steps]),
    )


def make_objects(values: Sequence[object]) -> "NDArray[np.object_]":
    """Return objects as a column, tuples as they are."""
    column = np.empty(len(values), dtype=np.object_)
    for row, value in enumerate(values):
        column[row] = value
    return column


def _make_step(columns: StepColumns, row: int) -> Step:
    duration_s = _number(columns.numbers["duration_s"][row])
    numbers: dict[str, Any] = {
        name: _whole(column[row]) if name in _WHOLE else _number(column[row])
        for name, column in columns.numbers.items()
    }
    return Step(
        run_id=columns.run_id,
        step=int(columns.steps[row]),
        attempt=int(columns.attempts[row]),
        start_ns=int(columns.start_ns[row]),
        end_ns=int(columns.end_ns[row]) or None,
        closed_by=cast("ClosedBy | None", columns.closed_by[row]),
        stages=tuple(
            StageTime(
                name,
                float(column[row]),
                float(columns.inclusive_s[name][row]),
                float(column[row]) / duration_s if duration_s else None,
                None,
                None,
                stages.STAGES[name].includes if name in stages.STAGES else (),
                "scalar" if columns.is_scalar[name][row] else "span",
            )
            for name, column in columns.exclusive_s.items()
            if not np.isnan(column[row])
        ),
        outside=tuple(
            OutsideStage(name, float(column[row]))
            for name, column in columns.outside_s.items()
            if not np.isnan(column[row])
        ),
        verdict=cast("str | None", columns.verdicts[row]),
        confidence=cast("Confidence | None", columns.confidences[row]),
        notes=cast("tuple[Note, ...]", columns.notes[row]),
        **numbers,
    )


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _whole(value: np.float64) -> int | None:
    return None if np.isnan(value) else int(value)
