"""Decoding on one replica: all running sequences advance together, slower the more there are."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from longpole_sim.plan import PartPlan

# An 8B model on H100s: one sequence alone, and the load per GPU at which the speed has halved.
_SINGLE_TOKENS_PER_S = 165.0
_HALVING_LOAD_PER_GPU = 65.0
# Seconds between the starts of two requests of one replica, whatever their prompts.
_PREFILL_S = 0.004
# A request is admitted while its tokens leave this part of the KV cache free.
_KV_WATERMARK = 0.01
_NEVER = float("inf")
PREEMPTED = "preempted"


@dataclass(frozen=True, slots=True)
class Engine:
    """One replica's engine.

    Attributes:
        speed: Multiplies its tokens per second.
        max_running: Most sequences decoded at once, None without a cap.
        kv_tokens: Tokens that its KV cache holds, None for room enough.
        prefill_tokens_per_s: Prompt tokens read in a second, one request after the other.
    """

    num_gpus: int
    speed: float = 1.0
    max_running: int | None = None
    kv_tokens: float | None = None
    prefill_tokens_per_s: float = 54_000.0

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
        prompt_tokens: What its prompt takes of the KV cache; a shared part counts once.
        prefill_tokens: Prompt tokens that no cache holds.
    """

    turn_tokens: tuple[int, ...]
    tool_s: tuple[float, ...] = ()
    tool_name: str = ""
    score_s: float = 0.0
    score_name: str = ""
    prompt_tokens: float = 0.0
    prefill_tokens: float = 0.0


def serve(engine: Engine, requests: Sequence[Request], start_s: float) -> list[list[PartPlan]]:
    """Return each request's windows when all of them are sent to an idle engine at `start_s`."""
    return _Serving(engine, requests, start_s).run()


@dataclass(slots=True)
class _Sample:
    """Where a request is. `done` tokens of turn `turn` are behind it."""

    turn: int = 0
    done: float = 0.0
    kv: float = 0.0
    since_s: float = 0.0
    began_s: float = 0.0
    began_at: float = 0.0
    # Counts how often it has begun to run: what was planned for an earlier time is void.
    epoch: int = 0
    waits_for: str = "prefill queue"


class _Serving:
    def __init__(self, engine: Engine, requests: Sequence[Request], start_s: float) -> None:
        self._engine = engine
        self._requests = requests
        self._parts: list[list[PartPlan]] = [[] for _ in requests]
        self._samples = [_Sample(since_s=start_s) for _ in requests]
        self._queue = deque(range(len(requests)))
        # (when, request): about to run; back from a tool.
        self._prefilling: list[tuple[float, int]] = []
        self._in_tools: list[tuple[float, int]] = []
        # (progress at which the turn ends, request, epoch), and in order of start.
        self._running: list[tuple[float, int, int]] = []
        self._started: list[tuple[int, int]] = []
        self._num_running = 0
        self._now_s = start_s
        self._prefill_free_s = start_s
        # Tokens that each running sequence has generated since the engine started.
        self._progress = 0.0
        # Taken of the KV cache: this, and `_progress` for each running sequence.
        self._kv_base = 0.0
        self._kv_promised = 0.0

    def run(self) -> list[list[PartPlan]]:
        self._admit()
        while True:
            self._drop_void()
            ready_s = self._prefilling[0][0] if self._prefilling else _NEVER
            back_s = self._in_tools[0][0] if self._in_tools else _NEVER
            done_s, full_s = self._next_done_s(), self._next_full_s()
            first_s = min(ready_s, back_s, done_s, full_s)
            if first_s == _NEVER:
                return self._parts
            self._advance(first_s)
            if first_s == ready_s:
                _, i = heapq.heappop(self._prefilling)
                self._kv_promised -= self._samples[i].kv
                self._begin(i)
            elif first_s == back_s:
                self._come_back(heapq.heappop(self._in_tools)[1])
            elif first_s == done_s:
                self._finish_turn()
            else:
                self._preempt()
            self._admit()

    def _advance(self, to_s: float) -> None:
        if to_s > self._now_s:
            speed = self._engine.tokens_per_s(self._num_running)
            self._progress += (to_s - self._now_s) * speed
            self._now_s = to_s

    def _drop_void(self) -> None:
        while self._running and self._running[0][2] != self._samples[self._running[0][1]].epoch:
            heapq.heappop(self._running)

    def _next_done_s(self) -> float:
        if not self._running:
            return _NEVER
        speed = self._engine.tokens_per_s(self._num_running)
        return self._now_s + max(0.0, self._running[0][0] - self._progress) / speed

    def _next_full_s(self) -> float:
        """When the KV cache is full; one sequence alone always has room."""
        room = self._engine.kv_tokens
        if room is None or self._num_running < 2:
            return _NEVER
        per_token = self._num_running * self._engine.tokens_per_s(self._num_running)
        return self._now_s + max(0.0, room - self._kv_used()) / per_token

    def _kv_used(self) -> float:
        return self._kv_base + self._num_running * self._progress

    def _admit(self) -> None:
        cap = self._engine.max_running
        room = self._engine.kv_tokens
        while self._queue:
            taken = self._num_running + len(self._prefilling)
            if cap is not None and taken >= cap:
                return
            i = self._queue[0]
            sample, request = self._samples[i], self._requests[i]
            # All that it has generated is read again with its prompt after a preemption.
            behind = sum(request.turn_tokens[: sample.turn]) + sample.done
            kv = request.prompt_tokens + behind
            if room is not None and taken:
                used = self._kv_used() + self._kv_promised
                if used + kv > room * (1 - _KV_WATERMARK):
                    return
            self._queue.popleft()
            sample.kv = kv
            self._kv_promised += kv
            unread = request.prefill_tokens
            if sample.waits_for == PREEMPTED:
                unread = max(unread, request.prompt_tokens) + behind
            elif sample.turn:
                unread = 0.0
            start_s = max(self._now_s, self._prefill_free_s)
            self._prefill_free_s = start_s + _PREFILL_S + unread / self._engine.prefill_tokens_per_s
            heapq.heappush(self._prefilling, (self._prefill_free_s, i))

    def _begin(self, i: int) -> None:
        sample = self._samples[i]
        if self._now_s > sample.since_s:
            self._parts[i].append(PartPlan("queue", sample.waits_for, sample.since_s, self._now_s))
        sample.epoch += 1
        sample.began_s, sample.began_at = self._now_s, self._progress
        self._num_running += 1
        self._kv_base += sample.kv - self._progress
        left = self._requests[i].turn_tokens[sample.turn] - sample.done
        heapq.heappush(self._running, (self._progress + left, i, sample.epoch))
        self._started.append((i, sample.epoch))

    def _leave(self, i: int, name: str) -> float:
        """Take a sequence out of the batch and return the tokens of this run of it."""
        sample = self._samples[i]
        generated = self._progress - sample.began_at
        self._kv_base -= sample.kv - sample.began_at
        self._num_running -= 1
        self._parts[i].append(
            PartPlan("generate", name, sample.began_s, self._now_s, generated, sample.kv)
        )
        return generated

    def _finish_turn(self) -> None:
        end, i, _ = heapq.heappop(self._running)
        self._progress = end
        sample, request = self._samples[i], self._requests[i]
        self._leave(i, f"turn {sample.turn + 1}")
        sample.epoch += 1
        if sample.turn + 1 < len(request.turn_tokens):
            back_s = self._now_s + request.tool_s[sample.turn]
            self._parts[i].append(PartPlan("tool", request.tool_name, self._now_s, back_s))
            sample.turn, sample.done, sample.waits_for = sample.turn + 1, 0.0, "queue"
            heapq.heappush(self._in_tools, (back_s, i))
        elif request.score_s > 0:
            end_s = self._now_s + request.score_s
            self._parts[i].append(PartPlan("score", request.score_name, self._now_s, end_s))

    def _come_back(self, i: int) -> None:
        """Go on after a tool: at once where there is room, else in the queue."""
        sample, request = self._samples[i], self._requests[i]
        sample.since_s = self._now_s
        cap, room = self._engine.max_running, self._engine.kv_tokens
        sample.kv = request.prompt_tokens + sum(request.turn_tokens[: sample.turn])
        taken = self._num_running + len(self._prefilling)
        is_full = cap is not None and taken >= cap
        if room is not None and taken:
            is_full = is_full or self._kv_used() + self._kv_promised + sample.kv > room
        if is_full or self._queue:
            self._queue.append(i)
        else:
            self._begin(i)

    def _preempt(self) -> None:
        """Throw the sequence out that came last, as the engines do; it is computed again."""
        while True:
            i, epoch = self._started.pop()
            sample = self._samples[i]
            if sample.epoch == epoch:
                break
        sample.done += self._leave(i, f"turn {sample.turn + 1}")
        sample.epoch += 1
        sample.since_s, sample.waits_for = self._now_s, PREEMPTED
        self._queue.appendleft(i)


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
