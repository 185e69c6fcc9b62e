"""What a log file said, before anything is made of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from longpole_server.model.step import Note

LogFormat = Literal["verl_console", "verl_jsonl"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """The scalars of one line (or several glued or wrapped ones) for one step.

    Attributes:
        scalars: Names as the trainer wrote them; values in the trainer's units.
        torn: The line ends in the middle, so values may be missing.
    """

    step: int
    scalars: Mapping[str, float]
    torn: bool = False


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """All scalars of one step of one attempt, merged over the lines that name it."""

    attempt: int
    step: int
    scalars: Mapping[str, float]
    torn: bool = False


@dataclass(slots=True)
class LogSummary:
    """Grows while a file is read: counts, and notes on what could not be used."""

    format: LogFormat | None = None
    num_lines: int = 0
    num_steps: int = 0
    num_attempts: int = 1
    num_unreadable: int = 0
    num_overlong: int = 0
    torn_step: int | None = None
    torn_last_line: bool = False
    duplicate_steps: int = 0
    notes: list[Note] = field(default_factory=list[Note])

    def finish(self) -> tuple[Note, ...]:
        """Return the notes a reader must know, one per kind of trouble."""
        notes = list(self.notes)
        if self.torn_last_line:
            where = f" (step {self.torn_step})" if self.torn_step is not None else ""
            notes.append(
                Note(
                    code="line.torn",
                    severity="info",
                    summary=f"The last line{where} ends in the middle; it is not judged.",
                    first_step=self.torn_step,
                    last_step=self.torn_step,
                )
            )
        if self.num_unreadable:
            notes.append(
                Note(
                    code="line.unreadable",
                    severity="warning",
                    summary=f"{self.num_unreadable} lines could not be read and were skipped.",
                )
            )
        if self.num_overlong:
            notes.append(
                Note(
                    code="line.overlong",
                    severity="warning",
                    summary=f"{self.num_overlong} lines over the length limit were skipped.",
                )
            )
        if self.num_attempts > 1:
            notes.append(
                Note(
                    code="run.resumed",
                    severity="info",
                    summary=f"The step number goes back {self.num_attempts - 1} times: "
                    f"{self.num_attempts} attempts; each step counts once, its latest attempt.",
                )
            )
        return tuple(notes)
