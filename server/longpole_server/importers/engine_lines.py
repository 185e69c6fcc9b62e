"""Log lines of vLLM and SGLang: throughput, requests, KV usage, preemptions, sleep.

Values get the names of the engines' Prometheus pages and their units: fractions, tokens per
second, bytes. vLLM prints percentages where its page has fractions.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from longpole_server.importers.rows import clean_row, read_time_ns

# Of the lines about one step: what comes beyond is not kept.
MAX_LINES_OF_STEP = 4096
# What an engine did since its last line; everything else is a state.
PREEMPTIONS = "vllm:num_preemptions_total"
RETRACTIONS = "sglang:num_retracted_requests_total"
COUNTS = frozenset({PREEMPTIONS, RETRACTIONS})
# What it did since its start: `Increase` makes a count of it.
_SO_FAR = "vllm:preemptions_so_far"


@dataclass(frozen=True, slots=True)
class EngineLine:
    """What an engine said once.

    Attributes:
        replica: Which engine, as far as the line tells.
        time_ns: When, as if in UTC; None when the line does not say.
        values: By Prometheus name. Those of `COUNTS` are counts since the line before.
    """

    replica: str
    time_ns: int | None
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    unit: str
    factor: float = 1.0


_KV_USAGE = "vllm:kv_cache_usage_perc"
_VLLM_FIELDS: Mapping[str, _Field] = {
    "Avg prompt throughput": _Field("vllm:avg_prompt_throughput_toks_per_s", "tokens/s"),
    "Avg generation throughput": _Field("vllm:avg_generation_throughput_toks_per_s", "tokens/s"),
    "Running": _Field("vllm:num_requests_running", "reqs"),
    "Waiting": _Field("vllm:num_requests_waiting", "reqs"),
    "Pending": _Field("vllm:num_requests_waiting", "reqs"),
    "Swapped": _Field("vllm:num_requests_swapped", "reqs"),
    "Preemptions": _Field(PREEMPTIONS, ""),
    "GPU KV cache usage": _Field(_KV_USAGE, "%", 0.01),
    "KV cache usage": _Field(_KV_USAGE, "%", 0.01),
    "Prefix cache hit rate": _Field("vllm:prefix_cache_hit_rate", "%", 0.01),
}
_VLLM_OTHER_DEVICES: Mapping[str, _Field] = {
    f"{device} KV cache usage": _Field(_KV_USAGE, "%", 0.01)
    for device in ("CPU", "XPU", "NPU", "TPU", "HPU")
}
_VLLM_FIELD = re.compile(r"([A-Z][A-Za-z ]*): ([\d.]+) ?(tokens/s|reqs|%)?(?=[,.\s]|$)")
_VLLM_ENGINE = re.compile(r"Engine (\d+): Avg prompt")
_SLEEP = re.compile(
    r"Sleep mode freed (\d+(?:\.\d+)?) GiB memory, (\d+(?:\.\d+)?) GiB memory is still in use"
)
_ASLEEP = re.compile(r"It took (\d+(?:\.\d+)?) seconds to fall asleep")
_AWAKE = re.compile(r"It took (\d+(?:\.\d+)?) seconds to wake up")
# vLLM's first engine: hits on a line of their own, and a count since its start that it warns of now
# and then.
_FIRST_HITS = re.compile(r"Prefix cache hit rate: GPU: (\d+(?:\.\d+)?)%, CPU: ")
_PREEMPTED_SO_FAR = re.compile(r"is preempted by .*total_num_cumulative_preemption=(\d+)")
_NOT_FREED = re.compile(r"reset prefix cache because some blocks \((\d+)\) are not freed")
_GIB = 1 << 30

_SGLANG_FIELDS: Mapping[str, _Field] = {
    "#running-req": _Field("sglang:num_running_reqs", ""),
    "#queue-req": _Field("sglang:num_queue_reqs", ""),
    "#token": _Field("sglang:num_used_tokens", ""),
    "#full token": _Field("sglang:num_used_tokens", ""),
    "token usage": _Field("sglang:token_usage", ""),
    "full token usage": _Field("sglang:token_usage", ""),
    # First versions, of all their requests.
    "cache hit rate": _Field("sglang:cache_hit_rate", "%", 0.01),
    "gen throughput (token/s)": _Field("sglang:gen_throughput", ""),
}
_SGLANG_LINE = re.compile(r"(?:Decode|Prefill) batch(?: \[\d+\])?[.,] (.*)$")
_SGLANG_FIELD = re.compile(r"([#A-Za-z][#A-Za-z /()-]*?): ([\d.]+)(%?)(?=[,\s]|$)")
_SGLANG_RANK = re.compile(r"\[[^\]]*?((?:DP\d+ ?)?TP\d+|DP\d+)[^\]]*\]")
# `KV cache pool is full. Retract requests. #retracted_reqs: 4`, or `Decode out of memory happened.`
_RETRACTED = re.compile(r"(?:pool is full|out of memory happened)\..*#retracted_reqs: (\d+)")
_NEEDLE = re.compile(
    rb"generation throughput: |code batch|fill batch|Sleep mode freed|"
    rb"seconds to (?:fall|wake)|#retracted_reqs|are not freed|cache hit rate: GPU: |"
    rb"total_num_cumulative_preemption="
)
# Engines' lines are short, trainers' may have many thousand bytes.
_MAX_LINE_BYTES = 2000


def read_engine_line(raw: bytes, year: int) -> EngineLine | None:
    """Return what an engine says in a physical line, None when it is no engine's.

    Args:
        raw: The line.
        year: Of the log: vLLM's times leave it out.
    """
    if len(raw) > _MAX_LINE_BYTES or _NEEDLE.search(raw) is None:
        return None
    row = clean_row(raw)
    values, replica = _read_vllm(row.text)
    if not values:
        values, replica = _read_sglang(row.text)
    if not values:
        return None
    name = " ".join(part for part in (row.sender, replica) if part) or "engine"
    return EngineLine(name, read_time_ns(row.text, year), values)


class Increase:
    """Makes counts since an engine's last line of counts since its start.

    The first one of a log that does not begin with the engine's start tells nothing.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def count(self, line: EngineLine) -> EngineLine:
        """Return a line with the count in the place of the sum."""
        so_far = line.values.get(_SO_FAR)
        if so_far is None:
            return line
        last = self._last.get(line.replica)
        self._last[line.replica] = so_far
        values = {name: value for name, value in line.values.items() if name != _SO_FAR}
        if last is None or so_far < last:
            # The engine warns of its first one.
            last = 0.0 if so_far == 1.0 else None
        if last is not None:
            values[PREEMPTIONS] = so_far - last
        return replace(line, values=values)


class EngineWatch:
    """Collects engines' lines while the lines of a log pass by to its parser.

    Args:
        year: Of the log.
    """

    def __init__(self, year: int) -> None:
        self._year = year
        self._pending: deque[EngineLine] = deque(maxlen=MAX_LINES_OF_STEP)
        self._increase = Increase()
        self.num_lines = 0

    def watch(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines unchanged."""
        for raw in lines:
            found = read_engine_line(raw, self._year)
            if found is not None:
                self.num_lines += 1
                self._pending.append(self._increase.count(found))
            yield raw

    def take(self) -> tuple[EngineLine, ...]:
        """Return what engines said since the last call."""
        found = tuple(self._pending)
        self._pending.clear()
        return found


def _read_vllm(text: str) -> tuple[dict[str, float], str]:
    if "generation throughput: " in text:
        engine = _VLLM_ENGINE.search(text)
        start = text.find("Avg prompt throughput")
        found = _VLLM_FIELD.findall(text, max(start, 0))
        values = _read_fields(found, _VLLM_FIELDS)
        if _KV_USAGE not in values:
            # V1 names the device that it runs on; V0 names CPUs too, for its swap space.
            values |= _read_fields(found, _VLLM_OTHER_DEVICES)
        return values, f"engine {int(engine[1])}" if engine else ""
    if hits := _FIRST_HITS.search(text):
        return {"vllm:prefix_cache_hit_rate": float(hits[1]) * 0.01}, ""
    if so_far := _PREEMPTED_SO_FAR.search(text):
        return {_SO_FAR: float(so_far[1])}, ""
    if asleep := _SLEEP.search(text):
        return {
            "vllm:sleep_freed_bytes": float(asleep[1]) * _GIB,
            "vllm:sleep_in_use_bytes": float(asleep[2]) * _GIB,
        }, ""
    if left := _NOT_FREED.search(text):
        return {"vllm:prefix_cache_blocks_not_freed": float(left[1])}, ""
    if fell := _ASLEEP.search(text):
        return {"vllm:sleep_seconds": float(fell[1])}, ""
    if woke := _AWAKE.search(text):
        return {"vllm:wake_up_seconds": float(woke[1])}, ""
    return {}, ""


def _read_sglang(text: str) -> tuple[dict[str, float], str]:
    rank = _SGLANG_RANK.search(text)
    replica = rank[1] if rank else ""
    if retracted := _RETRACTED.search(text):
        return {RETRACTIONS: float(retracted[1])}, replica
    line = _SGLANG_LINE.search(text)
    if line is None or "#running-req" not in text:
        return {}, ""
    return _read_fields(_SGLANG_FIELD.findall(line[1]), _SGLANG_FIELDS), replica


def _read_fields(
    found: list[tuple[str, str, str]], known: Mapping[str, _Field]
) -> dict[str, float]:
    """Return the known fields that are printed in their unit."""
    values: dict[str, float] = {}
    for label, text, unit in found:
        field = known.get(label.strip())
        if field is None or unit != field.unit:
            continue
        try:
            values[field.name] = float(text.rstrip(".")) * field.factor
        except ValueError:
            continue
    return values
