"""slime's console: `... - perf 3: {...}`, `... - rollout 3: {...}`, `... - step 7: {...}`.

`perf`, `rollout`, `passrate`, `multi_turn` and `eval` name the rollout; `step` counts optimiser
steps, several of which may belong to one rollout. What they log is averaged over the rollout.
People show the dictionary of the trainer's timers alone, too: `{'perf/step_time': 89.0, ...}`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from longpole_server.importers.dict_console import Head, read_printed
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.tracked import average

# People show a dictionary with its pairs on lines of their own, and in double quotes.
NEEDLES = (b": {'", b': {"', b"perf ", b"rollout ")
# A single blank before it is one at which a terminal broke another line.
_BEFORE = r"(?:^(?:\s{2,}|\[[^\[\]]{4,60}\] ?)?| - )"
_HEAD = re.compile(
    _BEFORE + r"((?:[a-z]+-)?step|perf|rollout|passrate|multi_turn|eval) (\d{1,10}):"
    r"(?: (?=\{)| ?$)"
)
# The trainer's timers; the rollout process prints a `perf` of its own.
_TRAINER_TIMERS = ("perf/train_time", "perf/step_time", "perf/train_wait_time")
_MAX_HELD_STEPS = 4096
_BARE_HEAD = re.compile(r"^\s*(?=\{\s*(?:$|['\"](?:perf|rollout|train)/))")
# Without one of these a dictionary is none of a step.
_TOTALS = ("perf/step_time", "perf/total_train_time")
_BARE_NEEDLES = (b"{",)
_ROLLOUT = "rollout/step"


def parse_slime(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the rollouts of a console log, each a step.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    held: dict[str, list[Mapping[str, float]]] = {}
    for printed in read_printed(lines, find_head, summary, NEEDLES):
        if printed.number is None or printed.number > MAX_STEP:
            continue
        summary.num_step_lines += 1
        scalars: dict[str, float] = printed.scalars
        if printed.kind.endswith("step"):
            of_sender = held.setdefault(printed.sender, [])
            if len(of_sender) < _MAX_HELD_STEPS and not printed.torn:
                of_sender.append(scalars)
            continue
        if any(timer in scalars for timer in _TRAINER_TIMERS):
            scalars = average(held.pop(printed.sender, [])) | scalars
        yield LogLine(printed.number, scalars, torn=printed.torn, time_ns=printed.time_ns)


def parse_excerpt(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the dictionaries of the trainer's timers that nothing precedes, counted.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    number = 0
    for printed in read_printed(lines, _find_bare_head, summary, _BARE_NEEDLES):
        if not any(total in printed.scalars for total in _TOTALS):
            continue
        rollout = printed.scalars.get(_ROLLOUT)
        if rollout is not None and rollout.is_integer() and 0 <= rollout <= MAX_STEP:
            number = int(rollout)
        else:
            number += 1
            summary.steps_are_counted = True
        summary.num_step_lines += 1
        yield LogLine(number, printed.scalars, torn=printed.torn)


def is_excerpt(lines: Iterable[bytes]) -> bool:
    """Tell whether lines hold the seconds of a step as a dictionary does."""
    return any(
        f"{quote}{total}{quote}:".encode() in raw
        for raw in lines
        for total in _TOTALS
        for quote in "'\""
    )


def _find_bare_head(row: str) -> Head | None:
    found = _BARE_HEAD.match(row)
    return None if found is None else Head("bare", None, found.end())


def find_head(row: str) -> Head | None:
    """Return where a dictionary of metrics begins in a row."""
    found = _HEAD.search(row)
    return None if found is None else Head(found[1], int(found[2]), found.end())
