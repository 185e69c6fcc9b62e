"""The same simulated run as verl writes it: console text, or its JSONL file.

Source of the formats: `verl/utils/tracking.py` of verl 0.9. Neither carries times of day.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from longpole_sim.plan import StepPlan
from longpole_sim.scalars import step_scalars, validation_scalars
from longpole_sim.workload import Run

_RAY_PREFIX = "\x1b[36m(TaskRunner pid={pid})\x1b[0m "
_FIRST_ACCURACY = 0.4321
# What numpy computes is printed by numpy 2 with its type.
_NUMPY_PREFIXES = ("num_turns/", "timing_s/agent_loop/")


def console_lines(run: Run, plans: Iterable[StepPlan], total_steps: int = 800) -> Iterator[str]:
    """Yield the lines of a console log under Ray, without line ends.

    A step that hangs or crashes has no line, since verl prints after the step.
    """
    prefix = _RAY_PREFIX.format(pid=31_337)
    yield f"{prefix}Using dataset class: RLHFDataset"
    yield prefix + _console_line(0, validation_scalars(_FIRST_ACCURACY))
    elapsed_s = 0.0
    for plan in plans:
        if plan.incident is not None:
            continue
        elapsed_s += plan.next_s
        yield _progress_line(plan.step, total_steps, elapsed_s)
        yield prefix + _console_line(plan.step, step_scalars(run, plan))


def jsonl_lines(run: Run, plans: Iterable[StepPlan]) -> Iterator[str]:
    """Yield the lines of verl's file logger, without line ends."""
    yield _jsonl_line(0, validation_scalars(_FIRST_ACCURACY))
    for plan in plans:
        if plan.incident is None:
            yield _jsonl_line(plan.step, step_scalars(run, plan))


def write_console_log(path: Path, run: Run, plans: Iterable[StepPlan]) -> None:
    """Write a console log."""
    _write(path, console_lines(run, plans))


def write_jsonl_log(path: Path, run: Run, plans: Iterable[StepPlan]) -> None:
    """Write a JSONL log."""
    _write(path, jsonl_lines(run, plans))


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _console_line(step: int, scalars: Mapping[str, float]) -> str:
    parts = [f"{name}:{_format(name, value)}" for name, value in scalars.items()]
    return " - ".join([f"step:{step}", *parts])


def _format(name: str, value: float) -> str:
    if name.startswith(_NUMPY_PREFIXES):
        kind = "int64" if isinstance(value, int) else "float64"
        return f"np.{kind}({value!r})"
    return repr(value)


def _jsonl_line(step: int, scalars: Mapping[str, float]) -> str:
    return json.dumps({"step": step, "data": dict(scalars)}, separators=(",", ":"))


def _progress_line(step: int, total_steps: int, elapsed_s: float) -> str:
    percent = 100 * step // total_steps
    per_step_s = elapsed_s / step
    left = _clock((total_steps - step) * per_step_s)
    return (
        f"Training Progress: {percent:3d}%|{'█' * (percent // 10):10s}| {step}/{total_steps} "
        f"[{_clock(elapsed_s)}<{left}, {per_step_s:.2f}s/it]"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"
