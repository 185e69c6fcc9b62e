"""NeMo-RL's console: a block of results, one of times and one of rates for each step.

`===== Step 3/100 =====` begins a step; within an epoch steps count from 1 again. Each value stands
on a line of its own, `• generation: 32.52s (48.9%)`; the percentage repeats the seconds and is not
read. Copied text may lack the bullets: then known labels and that percentage tell its lines. Where
there are bullets a line without one is another program's.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary
from longpole_server.importers.rows import clean_row

NEEDLE = b"=== Step "
# Values and headings have one of these.
_MARKS = ("•".encode(), b"- ", b"===", b"Results", b"Timing", b"Metrics")
_STEP = re.compile(r"={10,} Step (\d{1,10})/(\d{1,10}) ={10,}")
_EPOCH = re.compile(r"={10,} Epoch (\d{1,6})/\d{1,6} ={10,}")
_VALUE = re.compile(
    r"^\s*[•·*-]\s*([^:]{1,80}):\s*([+-]?[\d.]+(?:[eE][+-]?\d+)?|[+-]?inf|nan)\s*(.*)$", re.I
)
_BARE_VALUE = re.compile(
    r"^\s*([A-Za-z][^:]{0,79}):\s+([+-]?[\d.]+(?:[eE][+-]?\d+)?|[+-]?inf|nan)\s*(.*)$", re.I
)
_SHARE = re.compile(r"^s \(\d+(?:\.\d+)?%\)$")
_SECONDS = re.compile(r"^s(?:\s*\(.*\))?$")
_PER_RANK = re.compile(r"^TFLOPS \((\d+(?:\.\d+)?) TFLOPS per rank\)$")
_SECTION = re.compile(r"^\s*\S{0,3}\s*(Training Results|Timing|Validation|Performance)")
_RESULTS, _TIMES = "Training Results", "Timing"
_TOTAL = "timing/train/total_step_time"
_EXCERPT = b"Total step time: "
_TOTALS = ("Total step time", "Total validation time")
# Labels of the other blocks with the names under which the loggers get the same values.
_NAMES = {
    "Loss": "train/loss",
    "Generation KL Error": "train/gen_kl_error",
    "Avg Reward": "train/reward",
    "Avg Total Reward": "train/reward",
    "Avg Filtered Reward": "train/filtered_reward",
    "Mean Generation Length": "train/mean_gen_tokens_per_sample",
    "Mean Total Tokens per Sample": "train/mean_total_tokens_per_sample",
    "Buffer Size": "train/buffer_size",
    "Avg Trajectory Age": "train/avg_trajectory_age",
    # PPO's.
    "Avg Trajectory Age (gen-version)": "train/avg_trajectory_age",
    "Policy Loss": "train/loss",
    "Accuracy": "validation/accuracy",
    "Average response length": "validation/avg_length",
    "E2E (Samples/sec/gpu)": "performance/samples_per_sec_per_gpu",
    "E2E (Tokens/sec/gpu)": "performance/tokens_per_sec_per_gpu",
    "E2E (Samples/sec)": "performance/samples_per_sec",
    "E2E (Tokens/sec)": "performance/tokens_per_sec",
    "Policy Training (Tokens/sec/gpu)": "performance/policy_training_tokens_per_sec_per_gpu",
    "Generation Worker Group (Tokens/sec/gpu)": "performance/generation_tokens_per_sec_per_gpu",
    "Generation Worker Group (Tokens/sec)": "performance/generation_tokens_per_sec",
}
# Printed as percentages of what the loggers get as fractions.
_PERCENT_NAMES = {
    "Training Model Floating Point Utilization": "performance/train_fp_utilization",
    "Average Token Imbalance": "performance/average_token_imbalance",
}


# A line without a bullet has one of these, and is short.
_BARE_MARKS = re.compile(
    rb"%\)|"
    + b"|".join(re.escape(label.encode()) for label in (*_TOTALS, *_NAMES, *_PERCENT_NAMES))
)
_MAX_BARE_BYTES = 200


def parse_nemo_rl(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the steps of a console log, one line for each block.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    block = _Block()
    values = _Values()
    ended = True
    for raw in lines:
        ended = raw.endswith((b"\n", b"\r"))
        if not any(mark in raw for mark in _MARKS) and not _may_be_bare(raw):
            continue
        row = clean_row(raw)
        # Values stand behind bullets, headings have few forms.
        if block.step is not None and ended and (value := values.match(row.text)):
            block.take(value[1].strip(), value[2], value[3].strip(), summary)
        elif "====" not in row.text:
            if _SECTION.match(row.text):
                yield from block.flush(summary)
        elif epoch := _EPOCH.search(row.text):
            yield from block.flush(summary)
            block.epoch = int(epoch[1])
        elif step := _STEP.search(row.text):
            yield from block.flush(summary)
            block.begin(int(step[1]), int(step[2]))
    if not ended and block.step is not None:
        summary.torn_last_line, summary.torn_step = True, block.step
        summary.torn_step_is_judged = True
    yield from block.flush(summary)


def parse_excerpt(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the blocks that stand there without a line of their step before them, counted.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    block = _Block()
    values = _Values()
    for raw in lines:
        row = clean_row(raw)
        if value := values.match(row.text):
            if block.step is None:
                block.begin(1, 1)
            block.take(value[1].strip(), value[2], value[3].strip(), summary)
        elif (section := _SECTION.match(row.text)) and (
            section[1] == _RESULTS or (section[1] == _TIMES and _TOTAL in block.scalars)
        ):
            yield from block.flush(summary)
            block.epoch += block.step is not None
            block.begin(1, 1)
    yield from block.flush(summary)
    summary.steps_are_counted = True


def is_excerpt(lines: Iterable[bytes]) -> bool:
    """Tell whether lines hold the seconds of a step as a block prints them."""
    return any(_EXCERPT in raw and _Values().match(clean_row(raw).text) for raw in lines)


def _may_be_bare(raw: bytes) -> bool:
    return len(raw) <= _MAX_BARE_BYTES and _BARE_MARKS.search(raw) is not None


class _Values:
    """Finds the rows of a log that hold a value."""

    def __init__(self) -> None:
        self._has_bullets = False

    def match(self, row: str) -> re.Match[str] | None:
        """Return label, number and unit of a row that holds a value, None for any other row."""
        if value := _VALUE.match(row):
            self._has_bullets = True
            return value
        bare = None if self._has_bullets else _BARE_VALUE.match(row)
        if bare is None:
            return None
        label = bare[1].strip()
        is_known = label in _NAMES or label in _PERCENT_NAMES or label in _TOTALS
        return bare if is_known or _SHARE.match(bare[3].strip()) else None


@dataclass(slots=True)
class _Block:
    epoch: int = 1
    step: int | None = None
    scalars: dict[str, float] = field(default_factory=dict[str, float])

    def begin(self, step: int, steps_of_epoch: int) -> None:
        number = (self.epoch - 1) * steps_of_epoch + step
        self.step = number if number <= MAX_STEP else None

    def take(self, label: str, text: str, unit: str, summary: LogSummary) -> None:
        try:
            value = float(text)
        except ValueError:
            return
        name, value = _name_value(label, value, unit)
        if name is None:
            return
        if math.isfinite(value):
            self.scalars[name] = value
        else:
            summary.count_not_finite(name)

    def flush(self, summary: LogSummary) -> Iterator[LogLine]:
        if self.step is not None and self.scalars:
            summary.num_step_lines += 1
            yield LogLine(self.step, self.scalars)
        self.scalars = {}


def _name_value(label: str, value: float, unit: str) -> tuple[str | None, float]:
    """Return the logger's name and the value in its unit; no name when the unit is another."""
    if label in _PERCENT_NAMES:
        return (_PERCENT_NAMES[label], value / 100) if unit == "%" else (None, value)
    if label in _NAMES:
        return (_NAMES[label], value) if unit in ("", "tokens", "steps") else (None, value)
    if label == "Training FLOPS":
        per_rank = _PER_RANK.match(unit)
        return (
            ("performance/train_flops_per_gpu", float(per_rank[1])) if per_rank else (None, value)
        )
    if not _SECONDS.match(unit):
        return None, value
    if label == "Total step time":
        return _TOTAL, value
    if label == "Total validation time":
        return "timing/validation/total_validation_time", value
    return (f"timing/train/{label}", value) if re.fullmatch(r"[\w/]+", label) else (None, value)
