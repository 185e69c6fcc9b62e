"""The formats of line logs, and which one a line belongs to.

A format is known by a line that no other program prints, never by a file's name.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from longpole_server.importers import (
    areal,
    areal_trace,
    nemo_rl,
    openrlhf,
    prime_rl,
    roll,
    skyrl,
    slime,
    trl,
)
from longpole_server.importers.flat_jsonl import parse_flat_jsonl, read_fraction
from longpole_server.importers.logged import LogFormat, LogLine, LogSummary
from longpole_server.importers.rows import clean_row
from longpole_server.importers.verl_console import parse_console, parse_excerpt
from longpole_server.importers.verl_jsonl import parse_jsonl

Parser = Callable[[Iterable[bytes], LogSummary], Iterator[LogLine]]


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One way to log lines.

    Attributes:
        system: The framework, as runs name it; None when the names of the values tell.
        label: For people.
        example: What a line looks like.
        times_are_local: Its times, where it has any, say no time zone.
    """

    name: LogFormat
    system: str | None
    label: str
    example: str
    parse: Parser
    times_are_local: bool = False


VERL_CONSOLE = LineFormat(
    "verl_console", "verl", "verl console", "step:3 - timing_s/step:71.2 - ...", parse_console
)
# Known by what the whole log does not hold: no line of it names its step.
VERL_EXCERPT = LineFormat(
    "verl_console", "verl", "verl console", "timing_s/gen:40.1 - timing_s/step:66.0", parse_excerpt
)
# Likewise: blocks without a line that names their step.
NEMO_RL_EXCERPT = LineFormat(
    "nemo_rl_console",
    "nemo_rl",
    "NeMo-RL console",
    "• Total step time: 66.55s",
    nemo_rl.parse_excerpt,
    True,
)
# Likewise: dictionaries without what says their rollout.
SLIME_EXCERPT = LineFormat(
    "slime_console", "slime", "slime console", "{'perf/step_time': 89.0, ...}", slime.parse_excerpt
)
# Likewise: rows of tables.
AREAL_EXCERPT = LineFormat(
    "areal_console", "areal", "AReaL console", "│ timeperf/rollout │ 88.9 │", areal.parse_excerpt
)
VERL_JSONL = LineFormat(
    "verl_jsonl", "verl", "verl JSONL", '{"step": 3, "data": {...}}', parse_jsonl
)
SLIME = LineFormat(
    "slime_console", "slime", "slime console", "... - perf 3: {...}", slime.parse_slime, True
)
OPENRLHF = LineFormat(
    "openrlhf_console",
    "openrlhf",
    "OpenRLHF console",
    "Global step 3: {...}",
    openrlhf.parse_openrlhf,
    True,
)
NEMO_RL = LineFormat(
    "nemo_rl_console",
    "nemo_rl",
    "NeMo-RL console",
    "===== Step 3/100 =====, then `Total step time: 66.55s`",
    nemo_rl.parse_nemo_rl,
    True,
)
AREAL = LineFormat(
    "areal_console",
    "areal",
    "AReaL console",
    "Train step 3/20 done., then a table",
    areal.parse_areal,
    True,
)
AREAL_TRACE = LineFormat(
    "areal_trace",
    "areal",
    "AReaL perf_tracer JSONL",
    '{"name": "train.rollout", "ph": "X", "dur": ..., ...}',
    areal_trace.parse_areal_trace,
)
TRL = LineFormat(
    "trl_console", "trl", "TRL console", "{'loss': '0.01', 'reward': '0.5', ...}", trl.parse_trl
)
SKYRL = LineFormat(
    "skyrl_console", "skyrl", "SkyRL console", "... - Step 3:, then {...}", skyrl.parse_skyrl, True
)
ROLL = LineFormat(
    "roll_console", "roll", "ROLL console", 'metrics_tag: {"step": 3, ...}', roll.parse_roll, True
)
PRIME_RL = LineFormat(
    "prime_rl_console",
    "prime_rl",
    "prime-rl console",
    "Step 3 | 72.0s | Loss 0.01 | ...",
    prime_rl.parse_prime_rl,
)
FLAT_JSONL = LineFormat(
    "flat_jsonl",
    None,
    "JSONL with a step and flat names (prime-rl's file monitor, others)",
    '{"step": 3, "time": ..., "time/step": 71.2}',
    parse_flat_jsonl,
)
LINE_FORMATS: tuple[LineFormat, ...] = (
    VERL_CONSOLE,
    VERL_JSONL,
    SLIME,
    OPENRLHF,
    NEMO_RL,
    AREAL,
    AREAL_TRACE,
    TRL,
    SKYRL,
    ROLL,
    PRIME_RL,
    FLAT_JSONL,
)
BY_NAME: Mapping[LogFormat, LineFormat] = {known.name: known for known in LINE_FORMATS}

_VERL_LINE = re.compile(rb"(?<![\w/.-])step:\d+ - ")
_JSON_START = re.compile(rb"^\W{0,3}\{\s*\"")
# The rest of a line of verl's JSONL that begins in the middle is none of these.
_STEP_KEYS = (
    "training_step",
    "step",
    "_step",
    "global_step",
    "train/global_step",
    "trainer/global_step",
)


def recognise(raw: bytes) -> LineFormat | None:
    """Return the format that a physical line betrays, None when it betrays none."""
    if b"step:" in raw and _VERL_LINE.search(raw):
        return VERL_CONSOLE
    if (json_format := _recognise_json(raw)) is not None:
        return json_format
    if not may_betray(raw):
        return None
    text = clean_row(raw).text
    return next((known for known, is_one in _MARKS if is_one(text)), None)


def may_betray(raw: bytes) -> bool:
    """Return whether a line holds what a line that betrays its format holds."""
    if len(raw) <= _SHORT_BYTES:
        return _NEEDLE.search(raw) is not None
    # Of long lines plain searches are faster.
    return any(needle in raw for needle in _NEEDLES)


def _recognise_json(raw: bytes) -> LineFormat | None:
    if raw[:16].find(b"{") < 0 or not _JSON_START.match(raw):
        return None
    try:
        document: object = orjson.loads(raw[raw.index(b"{") :].strip().rstrip(b","))
    except orjson.JSONDecodeError:
        # Python's NaN is no JSON.
        return VERL_JSONL if re.match(rb'^\W{0,3}\{\s*"step":\s*\d+,\s*"data":', raw) else None
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    if isinstance(fields.get("data"), dict) and isinstance(fields.get("step"), int):
        return VERL_JSONL
    if fields.get("ph") == "X" and str(fields.get("name")).startswith("train."):
        return AREAL_TRACE
    has_step = any(isinstance(fields.get(key), int) for key in _STEP_KEYS) or (
        read_fraction(fields) is not None
    )
    if has_step and any(
        "/" in key or key == "step_time" for key in fields if key not in _STEP_KEYS
    ):
        return FLAT_JSONL
    return None


# Kinds of slime's dictionaries that may begin on the next line: nothing else is called so.
_SLIME_KINDS = frozenset({"perf", "rollout"})


def _is_slime(text: str) -> bool:
    head = slime.find_head(text)
    if head is None:
        return False
    rest = text[head.brace :].strip()
    return rest.startswith(("{'", '{"')) or (head.kind in _SLIME_KINDS and rest in {"", "{"})


def _is_roll(text: str) -> bool:
    return roll.find_head(text) is not None


def _is_prime_rl(text: str) -> bool:
    found = text.partition("Step ")[2].partition(" | ")[2]
    fields = [part.strip() for part in found.split(" | ")]
    return len(fields) > 1 and bool(prime_rl.read_fields(fields, LogSummary()))


def _is_skyrl(text: str) -> bool:
    head = skyrl.find_head(text)
    is_named = head is not None and "tracking" in text
    return is_named or skyrl.is_timer(text) or skyrl.is_dictionary(text)


_MARKS: tuple[tuple[LineFormat, Callable[[str], bool]], ...] = (
    (OPENRLHF, lambda text: openrlhf.find_head(text) is not None),
    (SLIME, _is_slime),
    (ROLL, _is_roll),
    (SKYRL, _is_skyrl),
    (NEMO_RL, lambda text: "==== Step " in text and text.rstrip().endswith("====")),
    (AREAL, lambda text: "Train step " in text and text.rstrip().endswith("done.")),
    (PRIME_RL, _is_prime_rl),
    (TRL, lambda text: trl.find_head(text) is not None),
)
_NEEDLES: tuple[bytes, ...] = (
    openrlhf.NEEDLE,
    *slime.NEEDLES,
    *roll.NEEDLES,
    skyrl.NEEDLE,
    skyrl.TIMER_NEEDLE,
    skyrl.DICTIONARY_NEEDLE,
    nemo_rl.NEEDLE,
    areal.NEEDLE,
    b" | Loss",
    b" | Reward",
    *trl.NEEDLES,
)
_NEEDLE = re.compile(b"|".join(map(re.escape, _NEEDLES)))
_SHORT_BYTES = 1000
