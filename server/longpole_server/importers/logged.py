"""What a log file said, before anything is made of it."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from longpole_server.importers.engine_lines import EngineLine
from longpole_server.model.step import Note, Severity

LogFormat = Literal[
    "verl_console",
    "verl_jsonl",
    "slime_console",
    "openrlhf_console",
    "nemo_rl_console",
    "areal_console",
    "areal_trace",
    "trl_console",
    "trainer_state",
    "skyrl_console",
    "roll_console",
    "prime_rl_console",
    "flat_jsonl",
    "csv_table",
    "wandb_run",
    "swanlab_run",
    "event_file",
    "mlflow_run",
    "engine_log",
]

# A step number beyond this is no step number.
MAX_STEP = 2**31 - 1
# Seconds of the whole step, by the names of verl's versions.
WHOLE_STEP = ("timing_s/step", "perf/time_per_step", "timing/step")
# A step has these once, when it is done. Some trainers log no seconds of the whole step: there
# those of a stage that every step has stand for them.
STEP_TOTALS = (
    *WHOLE_STEP,
    "timing/gen",
    "timing/step_total",
    "timing/train/total_step_time",
    "perf/step_time",
    "perf/total_train_time",
    "time/step",
    "time/total",
    "time/step_train",
    "time/step_generate",
    "time/step_rollout",
    "timeperf/rollout",
    "timeperf/train_step",
    "step_time",
)

_MAX_NAMES = 256
_NAMES_SHOWN = 3


def has_step_total(names: Container[str]) -> bool:
    """Return whether these are the scalars of a step that is done."""
    return any(name in names for name in STEP_TOTALS)


@dataclass(frozen=True, slots=True)
class LogLine:
    """The scalars of one line (or several glued or wrapped ones) for one step.

    Attributes:
        scalars: Names as the trainer wrote them; finite values in the trainer's units.
        torn: The line ends in the middle, so values are missing.
        resumed: The trainer said before it that it goes on from a checkpoint.
        time_ns: When it was logged, UTC nanoseconds; None when the log does not say.
        engines: What engines said in the same log before it.
    """

    step: int
    scalars: Mapping[str, float]
    torn: bool = False
    resumed: bool = False
    time_ns: int | None = None
    engines: tuple[EngineLine, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """All scalars of one step of one attempt, merged over the lines that name it.

    A line that comes much later than the others of its step makes a second one.

    Attributes:
        time_ns: When the last of them was logged, UTC nanoseconds; None when no line says.
        engines: What engines said while it ran.
    """

    attempt: int
    step: int
    scalars: Mapping[str, float]
    torn: bool = False
    time_ns: int | None = None
    engines: tuple[EngineLine, ...] = ()


@dataclass(slots=True)
class LogSummary:
    """Grows while a file is read: counts, and what could not be used.

    Attributes:
        system: The framework where the format tells it.
        mode: The mode where the format tells it.
        num_lines: Physical lines.
        num_step_lines: Lines that log something about a step.
        num_engine_lines: Lines in which an inference engine reports.
        torn_last_line: The file ends in the middle of a line.
        torn_step: The step that line is about, when it says so.
        torn_step_is_judged: Of that line nothing but the last value is missing.
        not_finite: How often a name was logged as NaN or infinite.
        steps_are_counted: The log numbers no steps: the reader counted them.
        times_are_local: The times of the log say no time zone.
        remarks: What else a reader must know, by code: once each.
        year: When the log was written, for formats whose times leave it out.
    """

    format: LogFormat | None = None
    system: str | None = None
    mode: str | None = None
    num_lines: int = 0
    num_step_lines: int = 0
    num_engine_lines: int = 0
    num_attempts: int = 1
    num_unreadable: int = 0
    num_overlong: int = 0
    torn_last_line: bool = False
    torn_step: int | None = None
    torn_step_is_judged: bool = False
    not_finite: dict[str, int] = field(default_factory=dict[str, int])
    steps_are_counted: bool = False
    times_are_local: bool = False
    remarks: dict[str, Note] = field(default_factory=dict[str, Note])
    year: int = 1970

    def remark(self, code: str, severity: Severity, text: str, metric: str | None = None) -> None:
        """Note something about the log, the first time that it is seen."""
        self.remarks.setdefault(code, Note(code, severity, text, metric))

    def count_not_finite(self, name: str) -> None:
        """Count a value that is NaN or infinite."""
        if name in self.not_finite or len(self.not_finite) < _MAX_NAMES:
            self.not_finite[name] = self.not_finite.get(name, 0) + 1

    def finish(self) -> tuple[Note, ...]:
        """Return the notes a reader must know, one per kind of trouble."""
        return tuple(self._notes())

    def _notes(self) -> Iterator[Note]:
        if self.torn_last_line:
            yield Note(
                "line.torn",
                "info",
                self._describe_torn(),
                None,
                self.torn_step,
                self.torn_step,
            )
        if self.num_unreadable:
            lines = _count(self.num_unreadable, "line")
            yield Note("line.unreadable", "warning", f"{lines} could not be read: skipped.")
        if self.num_overlong:
            lines = _count(self.num_overlong, "line")
            yield Note("line.overlong", "warning", f"{lines} over the length limit: skipped.")
        if self.not_finite:
            yield Note("value.not_finite", "info", self._describe_not_finite())
        if self.steps_are_counted:
            yield Note(
                "step.counted",
                "info",
                "The log numbers no steps: its records are counted. A record may stand for several "
                "steps of the trainer; times are means of one.",
            )
        yield from self.remarks.values()
        if self.num_attempts > 1:
            yield Note(
                "run.resumed",
                "info",
                f"The log holds {self.num_attempts} attempts at the training; each step counts "
                "once, in its latest attempt.",
            )

    def _describe_torn(self) -> str:
        if self.torn_step is None:
            return "The last line ends in the middle; it is not judged."
        if self.torn_step_is_judged:
            return (
                f"The last line (step {self.torn_step}) has no line end; its last value may be "
                "cut short and is not used."
            )
        return f"The last line (step {self.torn_step}) ends in the middle; it is not judged."

    def _describe_not_finite(self) -> str:
        names = sorted(self.not_finite, key=lambda name: (-self.not_finite[name], name))
        shown = [
            f"`{name}` ({_count(self.not_finite[name], 'time')})" for name in names[:_NAMES_SHOWN]
        ]
        more = len(names) - len(shown)
        listed = ", ".join(shown) + (f" and {more} more" if more else "")
        return f"NaN or infinite, and not used: {listed}."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
