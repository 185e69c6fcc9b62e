"""prime-rl's consoles: `Step 3 | 15m 56s | Loss 0.0123 | ... | MFU 35.2% | Peak Mem. 61.2 GiB`.

Trainer and orchestrator are two processes that log under the same step; the orchestrator's own
seconds are kept under a name of their own. Older versions print `Time: 72.00s | Loss: 0.0123`.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from longpole_server.importers.literals import read_number
from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.rows import clean_row

NEEDLE = b"Step "
_HEAD = re.compile(r"(?<!\w)Step (\d{1,10}) \| ")
# What ends a line that is shown within quotes: no field holds any of these.
_QUOTE_END = re.compile(r"['\"`]|\\n")
_CLOCK = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)(?=\s|$)")
_SECONDS: Mapping[str, float] = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FIELD = re.compile(
    r"^([A-Z][A-Za-z .\-]*?):?\s+([+-]?(?:[\d.]+(?:[eE][+-]?\d+)?|inf|nan))\s*(.*)$"
)
# The orchestrator's seconds: both processes call theirs `time/step`.
ORCHESTRATOR_STEP = "orchestrator/time/step"
_TRAINER_STEP = "time/step"

# Label: (name, unit, factor to the name's unit). A value in another unit is not read.
_TRAINER: Mapping[str, tuple[str, str, float]] = {
    "Loss": ("loss/mean", "", 1.0),
    "Entropy": ("entropy/all/mean", "", 1.0),
    "Mismatch KL": ("mismatch_kl/all/mean", "", 1.0),
    "Grad. Norm": ("optim/grad_norm", "", 1.0),
    "LR": ("optim/lr", "", 1.0),
    "Throughput": ("perf/throughput", "tokens/s", 1.0),
    "MFU": ("perf/mfu", "%", 1.0),
    "Peak Mem.": ("perf/peak_memory", "GiB", 1.0),
}
_ORCHESTRATOR: Mapping[str, tuple[str, str, float]] = {
    "Reward": ("reward_mean", "", 1.0),
    "Turns": ("orchestrator/num_turns", "", 1.0),
    "Max Off-Policy": ("off_policy/max", "", 1.0),
    "Max. Off-Policy Level": ("off_policy/max", "", 1.0),
    "Async Level": ("orchestrator/async_level", "", 1.0),
    "Error": ("orchestrator/error_ratio", "%", 0.01),
    "Cancelled": ("orchestrator/cancelled_ratio", "%", 0.01),
    "Truncation": ("truncated_ratio", "%", 0.01),
}


def parse_prime_rl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log of either process or of both.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    for raw in lines:
        if NEEDLE not in raw:
            continue
        row = clean_row(raw)
        heads = list(_HEAD.finditer(row.text))
        ends = [*(head.start() for head in heads[1:]), len(row.text)]
        for head, end in zip(heads, ends, strict=False):
            if int(head[1]) > MAX_STEP:
                continue
            # A list of lines may stand in one row, each within quotes.
            text = _QUOTE_END.split(row.text[head.end() : end], maxsplit=1)[0]
            fields = [part.strip() for part in text.split(" | ")]
            if not row.ended and end == len(row.text):
                summary.torn_last_line, summary.torn_step = True, int(head[1])
                summary.torn_step_is_judged = True
                fields.pop()
            scalars = read_fields(fields, summary)
            if scalars:
                summary.num_step_lines += 1
                yield LogLine(int(head[1]), scalars)


def read_fields(fields: list[str], summary: LogSummary) -> dict[str, float]:
    """Return the scalars of a step line; empty when it is none of prime-rl's."""
    is_trainer = any(field.startswith(("Loss ", "Loss:")) for field in fields)
    is_orchestrator = any(field.startswith(("Reward ", "Reward:")) for field in fields)
    if is_trainer == is_orchestrator:
        return {}
    table = _TRAINER if is_trainer else _ORCHESTRATOR
    scalars: dict[str, float] = {}
    seconds = read_clock(fields[0].removeprefix("Time:")) if fields else None
    if seconds is not None:
        scalars[_TRAINER_STEP if is_trainer else ORCHESTRATOR_STEP] = seconds
    for field in fields:
        match = _FIELD.match(field)
        if match is None or match[1] not in table:
            continue
        name, unit, factor = table[match[1]]
        if match[3].strip() != unit:
            continue
        value = read_number(match[2])
        if value is None:
            continue
        if math.isfinite(value):
            scalars[name] = value * factor
        else:
            summary.count_not_finite(name)
    return scalars


def read_clock(text: str) -> float | None:
    """Return seconds of `850ms`, `12s`, `72.00s`, `15m 56s`, `2h 5m`; None for anything else."""
    text = text.strip()
    parts = _CLOCK.findall(text)
    if not parts or " ".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)


def name_step_seconds(scalars: Mapping[str, float]) -> Mapping[str, float]:
    """Return an orchestrator's record with its seconds as the step's: where no trainer logs any."""
    seconds = scalars.get(ORCHESTRATOR_STEP)
    return scalars if seconds is None else {**scalars, _TRAINER_STEP: seconds}


def name_orchestrator(scalars: Mapping[str, float]) -> dict[str, float]:
    """Return a record of the file monitor; the orchestrator's `time/step` under its own name.

    Only the orchestrator waits for a policy and packs batches.
    """
    if "time/wait_for_policy" not in scalars and "time/pack" not in scalars:
        return dict(scalars)
    renamed = {
        ORCHESTRATOR_STEP if name == _TRAINER_STEP else name: value
        for name, value in scalars.items()
    }
    rewards = [
        value
        for name, value in scalars.items()
        if name.startswith("train/agg/effective/") and name.endswith("/reward/mean")
    ]
    # Several agents have a reward each: there is no mean of the step.
    if len(rewards) == 1:
        renamed.setdefault("reward_mean", rewards[0])
    return renamed
