"""Decoding on one replica: all running sequences advance together, slower the more there are."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_sim.plan import PartPlan

# An 8B model on H100s: one sequence alone, and the load per GPU at which the speed has halved.
_SINGLE_TOKENS_PER_S = 165.0
_HALVING_LOAD_PER_GPU = 65.0
# Seconds between the prefills of two requests of one replica.
_PREFILL_S = 0.004


@dataclass(frozen=True, slots=True)
class Engine:
    """One replica's engine: `speed` multiplies its tokens per second."""

    num_gpus: int
    speed: float = 1.0

    def tokens_per_s(self, num_running: int) -> float:
        """Return the decode speed of each of `num_running` sequences."""
        load = num_running / self.num_gpus
        return self.speed * _SINGLE_TOKENS_PER_S / (1.0 + load / _HALVING_LOAD_PER_GPU)


@dataclass(frozen=True, slots=True)
class Request:
    """What one sample asks of its replica.

    Attributes:
        turn_tokens: Generated tokens of each turn.
        tool_s: Seconds of the tool call after each turn but the last.
        score_s: Seconds of scoring after the last turn.
    """

    turn_tokens: tuple[int, ...]
    tool_s: tuple[float, ...] = ()
    tool_name: str = ""
    score_s: float = 0.0
    score_name: str = ""


def serve(engine: Engine, requests: Sequence[Request], start_s: float) -> list[list[PartPlan]]:
    """Return each request's windows when all of them are sent to an idle engine at `start_s`."""
    parts: list[list[PartPlan]] = [[] for _ in requests]
    # Sequences about to run: (when, request, turn). Running: (shared progress at its end, ...).
    waiting = [(start_s + (i + 1) * _PREFILL_S, i, 0) for i in range(len(requests))]
    running: list[tuple[float, int, int]] = []
    began_s: dict[int, float] = {}
    now_s, progress = start_s, 0.0
    for when_s, i, _ in waiting:
        parts[i].append(PartPlan("queue", "prefill queue", start_s, when_s))
    while waiting or running:
        speed = engine.tokens_per_s(len(running))
        ends_s = now_s + (running[0][0] - progress) / speed if running else float("inf")
        if waiting and waiting[0][0] <= ends_s:
            when_s, i, turn = heapq.heappop(waiting)
            progress += (when_s - now_s) * speed
            now_s = when_s
            began_s[i] = now_s
            heapq.heappush(running, (progress + requests[i].turn_tokens[turn], i, turn))
            continue
        progress, i, turn = heapq.heappop(running)
        now_s = ends_s
        parts[i].append(PartPlan("generate", f"turn {turn + 1}", began_s[i], now_s))
        _go_on(requests[i], i, turn, now_s, parts[i], waiting)
    return parts


def _go_on(
    request: Request,
    i: int,
    turn: int,
    now_s: float,
    parts: list[PartPlan],
    waiting: list[tuple[float, int, int]],
) -> None:
    """After a turn: call the tool and queue the next turn, or score the finished sample."""
    if turn + 1 < len(request.turn_tokens):
        back_s = now_s + request.tool_s[turn]
        parts.append(PartPlan("tool", request.tool_name, now_s, back_s))
        heapq.heappush(waiting, (back_s, i, turn + 1))
    elif request.score_s > 0:
        parts.append(PartPlan("score", request.score_name, now_s, now_s + request.score_s))


def running_changes(parts: Sequence[Sequence[PartPlan]]) -> list[tuple[float, int]]:
    """Return (time, running sequences from then on), in order of time."""
    events = sorted(
        event
        for sample in parts
        for part in sample
        if part.kind == "generate"
        for event in ((part.start_s, 1), (part.end_s, -1))
    )
    changes: list[tuple[float, int]] = []
    count = 0
    for when_s, change in events:
        count += change
        changes.append((when_s, count))
    return changes
