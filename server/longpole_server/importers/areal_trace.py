"""AReaL's performance trace: one Chrome trace event a line, microseconds, one file per rank."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import orjson

from longpole_server.importers.logged import MAX_STEP, LogLine, LogSummary

NEEDLE = b'"ph":"X"'
# The scopes of the training loop with the names of AReaL's own timers.
_TIMER_OF_SCOPE: Mapping[str, str] = {
    "train.rollout": "rollout",
    "train.compute_values": "critic_values",
    "train.compute_critic": "critic_values",
    "train.compute_ref_logp": "ref_logp",
    "train.ref_logp": "ref_logp",
    "train.compute_teacher_logp": "teacher_logp",
    "train.teacher_logp": "teacher_logp",
    "train.recompute_logp": "recompute_logp",
    "train.compute_advantage": "compute_advantage",
    "train.ppo_update": "train_step",
    "train.critic_ppo_update": "critic_train_step",
    "train.update_weights": "update_weights",
    "train.save": "save",
    "train.checkpoint": "checkpoint_for_recover",
    "train.eval": "eval",
    "train.clear_batches": "clear_batches",
}
_MICROSECONDS = 1e6
_EVENT = re.compile(rb'"ph"\s*:\s*"X"')


def parse_areal_trace(lines: Iterable[bytes], summary: LogSummary) -> Iterator[LogLine]:
    """Yield the times of each step's stages; steps are numbered from 0, as AReaL's are here.

    Args:
        lines: Physical lines with their end, if they had one.
        summary: Counts grow as lines are consumed.
    """
    step: int | None = None
    seconds: dict[str, float] = {}
    for raw in lines:
        if not _EVENT.search(raw):
            continue
        try:
            document: object = orjson.loads(raw.strip().rstrip(b","))
        except orjson.JSONDecodeError:
            if raw.endswith((b"\n", b"\r")):
                summary.num_unreadable += 1
            continue
        summary.torn_last_line = False
        # Most scopes are none of the training loop's.
        event = _read_event(document)
        if event is None:
            continue
        number, name, duration_s = event
        if step is not None and number != step:
            summary.num_step_lines += 1
            yield LogLine(step, seconds)
            seconds = {}
        step = number
        seconds[name] = seconds.get(name, 0.0) + duration_s
    if step is not None and seconds:
        summary.num_step_lines += 1
        yield LogLine(step, seconds)


def _read_event(document: object) -> tuple[int, str, float] | None:
    """Return (step, timer, seconds) of a scope of the training loop."""
    if not isinstance(document, dict):
        return None
    event = cast("dict[str, Any]", document)
    timer = _TIMER_OF_SCOPE.get(str(event.get("name")))
    args, duration = event.get("args"), event.get("dur")
    step = cast("dict[str, Any]", args).get("global_step") if isinstance(args, dict) else None
    if timer is None or not isinstance(step, int) or not 0 <= step <= MAX_STEP:
        return None
    if not isinstance(duration, int | float) or duration < 0:
        return None
    return step, f"timeperf/{timer}", duration / _MICROSECONDS
