"""Finds out a log's format and streams its steps in bounded memory."""

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from longpole_server.errors import UnreadableLogError
from longpole_server.importers import areal, nemo_rl, slime
from longpole_server.importers.csv_table import is_csv_table, read_csv_table
from longpole_server.importers.deriving import derive_scalars
from longpole_server.importers.engine_lines import EngineWatch
from longpole_server.importers.event_file import is_event_file, read_event_file
from longpole_server.importers.formats import (
    AREAL_EXCERPT,
    NEMO_RL_EXCERPT,
    SLIME_EXCERPT,
    VERL_CONSOLE,
    VERL_EXCERPT,
    LineFormat,
    may_betray,
    recognise,
)
from longpole_server.importers.lines import is_utf16, read_blocks, read_lines
from longpole_server.importers.logged import LogFormat, LoggedStep, LogLine, LogSummary
from longpole_server.importers.merging import merge_steps
from longpole_server.importers.mlflow_run import MAGIC as MLFLOW_MAGIC
from longpole_server.importers.mlflow_run import read_mlflow_run
from longpole_server.importers.sources import LogSource, with_head
from longpole_server.importers.swanlab_run import MAGIC as SWANLAB_MAGIC
from longpole_server.importers.swanlab_run import read_swanlab_run
from longpole_server.importers.trainer_state import is_trainer_state, read_trainer_state
from longpole_server.importers.verl_console import is_excerpt
from longpole_server.importers.wandb_run import MAGIC as WANDB_MAGIC
from longpole_server.importers.wandb_run import read_wandb_run

HEAD_BYTES = 64 << 10
# Lines before the first that betrays the format: what belongs to it may begin there.
_LOOK_BACK_LINES, _LOOK_BACK_BYTES = 5_000, 16 << 20
# No terminal is narrower or wider than this.
_MIN_WIDTH, _MAX_WIDTH = 40, 1000
# What betrays a format is not longer.
_REACH_BYTES = 64
# First bytes of compressed files, with what unpacks them.
_COMPRESSED: Mapping[bytes, str] = {
    b"\x1f\x8b": "zcat",
    b"\x28\xb5\x2f\xfd": "zstdcat",
    b"\xfd7zXZ\x00": "xzcat",
    b"BZh": "bzcat",
    b"PK\x03\x04": "unzip -p",
}
# Formats that are no lines, or whose first bytes tell, in the order in which they are tried.
FILE_FORMATS: tuple[
    tuple[
        LogFormat,
        Callable[[bytes], bool],
        Callable[[BinaryIO, LogSummary], Iterator[LogLine]],
    ],
    ...,
] = (
    ("wandb_run", lambda head: head.startswith(WANDB_MAGIC), read_wandb_run),
    ("swanlab_run", lambda head: head.startswith(SWANLAB_MAGIC), read_swanlab_run),
    ("mlflow_run", lambda head: head.startswith(MLFLOW_MAGIC), read_mlflow_run),
    ("event_file", is_event_file, read_event_file),
    ("trainer_state", is_trainer_state, read_trainer_state),
    ("csv_table", is_csv_table, read_csv_table),
)
_OTHERS = (
    "wandb's offline run file or CSV export, swanlab's run file, TensorBoard's event file, an "
    "MLflow run folder, transformers' trainer_state.json"
)


# What each framework calls the seconds of a step, where it logs them under one name.
_EXPECTED: Mapping[str, str] = {
    "verl": "verl's `timing_s/step`",
    "slime": "slime's `perf/step_time`, of the trainer's process",
    "openrlhf": "OpenRLHF's `timing/step_total`",
    "nemo_rl": "NeMo-RL's `Total step time`",
    "areal": "AReaL's `timeperf/rollout`",
    "trl": "TRL's `step_time`, or its progress bar",
    "skyrl": "SkyRL's `timing/step`",
    "roll": "ROLL's `time/step_generate`",
    "prime_rl": "prime-rl's `Time:`",
}


def read_steps(source: LogSource, summary: LogSummary) -> Iterator[LoggedStep]:
    """Yield the steps a log holds; `summary` is complete when the iterator is exhausted.

    Raises:
        UnreadableLogError: The file is binary.
        OSError: Reading failed.
    """
    with source.open() as stream:
        head = stream.read(HEAD_BYTES)
        refuse_binary(source, head)
        summary.year = year_of(source)
        yield from derive_scalars(
            merge_steps(_read_logged(head, stream, summary), summary), summary
        )


def find_file_format(head: bytes) -> LogFormat | None:
    """Return the format of a file that its first bytes tell, None for logs of lines."""
    return next((name for name, is_one, _ in FILE_FORMATS if is_one(head)), None)


def parse_lines(
    lines: Iterable[bytes], summary: LogSummary, *, default: LineFormat = VERL_CONSOLE
) -> Iterator[LogLine]:
    """Yield what lines of any known format log; `summary` learns the format.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
        default: Taken when no line betrays the format. Step lines that a terminal broke betray
            nothing; verl's are put together again.
    """
    engines = EngineWatch(summary.year)
    seen: deque[bytes] = deque()
    num_bytes = 0
    rest = engines.watch(lines)
    found: LineFormat | None = None
    before = b""
    for raw in rest:
        seen.append(raw)
        num_bytes += len(raw)
        while len(seen) > _LOOK_BACK_LINES or num_bytes > _LOOK_BACK_BYTES:
            num_bytes -= len(seen.popleft())
        found = recognise(raw) or _recognise_broken(before, raw)
        if found is not None:
            break
        before = raw
    # Where no line says its step, what is shown may be excerpts; they are short.
    known = found or _find_excerpt(seen) or default
    summary.format, summary.system = known.name, known.system
    summary.times_are_local = known.times_are_local
    for line in known.parse(itertools.chain(_drain(seen), rest), summary):
        yield _with_engines(line, engines)
    summary.num_engine_lines += engines.num_lines


def _find_excerpt(lines: Iterable[bytes]) -> LineFormat | None:
    if is_excerpt(lines):
        return VERL_EXCERPT
    if nemo_rl.is_excerpt(lines):
        return NEMO_RL_EXCERPT
    if areal.is_excerpt(lines):
        return AREAL_EXCERPT
    return SLIME_EXCERPT if slime.is_excerpt(lines) else None


def refuse_without_steps(source: LogSource, summary: LogSummary) -> UnreadableLogError:
    """Return the error for a log in which no step is complete."""
    if not summary.num_lines:
        return UnreadableLogError(f"{source.name} is empty.")
    if summary.num_step_lines:
        return UnreadableLogError(
            f"{source.name} holds no complete training step: none of its "
            f"{summary.num_step_lines} step lines says how long the step took.",
            hint="Expected the seconds of the step or of its stages among the values, such as "
            f"{_EXPECTED.get(summary.system or '', _EXPECTED['verl'])}.",
        )
    if summary.num_engine_lines:
        return UnreadableLogError(
            f"{source.name} holds {summary.num_engine_lines:,} lines of inference engines and no "
            "training step.",
            hint="Give the trainer's log too: both become one run.",
        )
    return UnreadableLogError(
        f"{source.name} holds no training step in any known form ({summary.num_lines:,} "
        f"line{'' if summary.num_lines == 1 else 's'} read).",
        hint="Known are logs of verl, slime, OpenRLHF, NeMo-RL, AReaL, TRL, SkyRL, ROLL, prime-rl, "
        "wandb, TensorBoard, MLflow and CSV: docs/frameworks.md says what each needs.",
    )


def refuse_binary(source: LogSource, head: bytes) -> None:
    """Refuse a file of which the first bytes are those of no log.

    Raises:
        UnreadableLogError: It is compressed or binary.
    """
    for mark, command in _COMPRESSED.items():
        if head.startswith(mark):
            raise UnreadableLogError(
                f"{source.name} is a compressed file, not a log.",
                hint=f"Unpack it on the way: {command} FILE | longpole diagnose -",
            )
    if b"\x00" not in head or is_utf16(head) or find_file_format(head) is not None:
        return
    if not any(recognise(line) for line in head.replace(b"\x00", b"").splitlines()):
        raise UnreadableLogError(f"{source.name} is a binary file, not a log.")


def year_of(source: LogSource) -> int:
    """Return the year in which a log was last written."""
    return time.gmtime(source.modified_ns // 10**9).tm_year


def _read_logged(head: bytes, stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    for name, is_one, read in FILE_FORMATS:
        if is_one(head):
            summary.format = name
            yield from read(with_head(head, stream), summary)
            return
    yield from parse_lines(read_lines(read_blocks(head, stream), summary), summary)


def _with_engines(line: LogLine, engines: EngineWatch) -> LogLine:
    said = engines.take()
    if not said:
        return line
    return LogLine(line.step, line.scalars, line.torn, line.resumed, line.time_ns, said)


def _recognise_broken(before: bytes, raw: bytes) -> LineFormat | None:
    """Return the format that two rows of a terminal betray which were one line."""
    if not _MIN_WIDTH <= len(before) <= _MAX_WIDTH:
        return None
    before = before.rstrip(b"\r\n")
    if not may_betray(before[-_REACH_BYTES:] + raw[:_REACH_BYTES]):
        return None
    return recognise(before + raw)


def _drain(seen: deque[bytes]) -> Iterator[bytes]:
    while seen:
        yield seen.popleft()
