"""Rollout engines that serve requests one by one, for labelled runs drawn from cases in the field.

What a scraper sees follows from the requests: which run, which wait, which blocks each holds, what
is left behind when they end. Nothing here draws a floor.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.rest import RestWindow, Samples, observe_engine, with_memory
from longpole_server.model.step import StageTime, Step
from support.alert_engine_series import BEGIN_NS, RUN_ID, Rng, S

_GIB = float(1 << 30)
_BLOCK = 16
_Number = Callable[[int], float]


@dataclass
class Habits:
    """How an engine and the work it gets behave. Functions take the index of the step, from 0.

    Attributes:
        num_requests: Of a step.
        length: Mean response, tokens.
        spread: Of the logarithm of a response's length.
        abort_ratio: Part of the requests that is aborted before its end.
        lost_per_abort: Blocks that an aborted request leaves behind for ever.
        lost_per_step: Blocks that go missing with every weight sync.
        evictable_kept: Part of a finished request's blocks that a cache keeps, given up on demand.
        blocks: Of the pool, as the engine makes it at each wake-up.
        restarts: Steps before which it is started anew.
        carried: A step in which one request runs on into the next.
        device_gib, host_gib: What GPUs and node hold at rest beside the pool.
        missed: Part of the scrapes that fail.
        stuck: Steps whose last requests hang: nothing is generated, all gauges stand.
    """

    num_requests: _Number = lambda index: 96
    length: _Number = lambda index: 700.0
    spread: float = 0.5
    abort_ratio: _Number = lambda index: 0.0
    lost_per_abort: _Number = lambda index: 0.0
    lost_per_step: _Number = lambda index: 0.0
    evictable_kept: float = 0.0
    blocks: Callable[[int], int] = lambda index: 9_000
    restarts: frozenset[int] = frozenset()
    carried: Callable[[int], bool] = lambda index: False
    device_gib: _Number = lambda index: 8.0
    host_gib: _Number = lambda index: 200.0
    missed: float = 0.0
    stuck: frozenset[int] = frozenset()


@dataclass
class FieldRun:
    """A run: its engines, and what their scraper can see.

    Attributes:
        kind: `vllm` or `sglang`.
        sleeps: Engines sleep while the trainer works, and say so.
        is_async: Requests are always at hand: an engine never runs dry.
    """

    engines: Mapping[str, Habits]
    num_steps: int = 80
    step_s: float = 150.0
    scrape_s: float = 5.0
    kind: str = "vllm"
    sleeps: bool = False
    is_async: bool = False
    scalars: Callable[[int], Mapping[str, float]] = field(default=lambda index: {})


def play(run: FieldRun, rng: Rng) -> list[StepPoint]:
    """Return the steps of a run as an evaluator sees them."""
    engines = {name: _Engine(name, habits, run, rng) for name, habits in run.engines.items()}
    points: list[StepPoint] = []
    for index in range(run.num_steps):
        step = _make_step(run, index)
        seen = {name: engine.serve(index, step) for name, engine in engines.items()}
        points.append(StepPoint(step, run.scalars(index), engines=seen))
    return points


def _make_step(run: FieldRun, index: int) -> Step:
    start_ns = BEGIN_NS + round(index * run.step_s * S)
    windows = (("gen", 0.0, 0.55), ("update_actor", 0.58, 0.9), ("update_weights", 0.92, 0.99))
    stages = tuple(
        StageTime(
            name,
            (end - begin) * run.step_s,
            (end - begin) * run.step_s,
            end - begin,
            start_ns + round(begin * run.step_s * S),
            start_ns + round(end * run.step_s * S),
            (),
            "span",
        )
        for name, begin, end in windows
    )
    return Step(
        run_id=RUN_ID,
        step=index + 1,
        attempt=1,
        start_ns=start_ns,
        end_ns=start_ns + round(run.step_s * S),
        duration_s=run.step_s,
        closed_by="loop",
        stages=stages,
        unattributed_s=0.0,
        outside=(),
    )


class _Engine:
    def __init__(self, name: str, habits: Habits, run: FieldRun, rng: Rng) -> None:
        self._name = name
        self._habits = habits
        self._run = run
        self._rng = rng
        self._generated = 0.0
        self._prompted = 0.0
        self._preempted = 0.0
        self._lost = 0.0
        self._cached = 0.0
        self._left: np.ndarray[tuple[int], np.dtype[np.float64]] = np.empty(0)
        self._done: np.ndarray[tuple[int], np.dtype[np.float64]] = np.empty(0)
        self._tail: dict[str, tuple[list[int], list[float]]] = {}

    def serve(self, index: int, step: Step) -> EngineStep:
        series = self._scrape(index, step)
        both = {
            name: Samples(
                np.array([*self._tail.get(name, ([], []))[0], *times], dtype=np.int64),
                np.array([*self._tail.get(name, ([], []))[1], *values]),
            )
            for name, (times, values) in series.items()
        }
        self._tail = {name: (times[-3:], values[-3:]) for name, (times, values) in series.items()}
        engine, windows = observe_engine(self._name, both, step)
        return with_memory(engine, windows, lambda window: self._measure(index, window))

    def _scrape(self, index: int, step: Step) -> dict[str, tuple[list[int], list[float]]]:
        run, habits, rng = self._run, self._habits, self._rng
        self._begin_step(index)
        blocks = float(habits.blocks(index))
        found: dict[str, tuple[list[int], list[float]]] = {}
        # Decoding is as quick as the last request needs: gen ends at about half of the step.
        rate = self._left.max(initial=1.0) / (0.5 * run.step_s) if not run.is_async else 20.0
        for count in range(int(run.step_s / run.scrape_s)):
            at_s = (count + 0.3) * run.scrape_s
            is_stuck = index in habits.stuck and at_s > 0.4 * run.step_s
            keeps_one = habits.carried(index)
            if not is_stuck:
                self._decode(rate * run.scrape_s * rng.uniform(0.9, 1.1), blocks, index, keeps_one)
            if run.is_async and len(self._left) < 48:
                self._admit(32, index)
            asleep = run.sleeps and 0.56 * run.step_s < at_s < 0.91 * run.step_s
            if rng.random() < habits.missed:
                continue
            for name, value in self._page(blocks, asleep=asleep).items():
                times, values = found.setdefault(name, ([], []))
                times.append(step.start_ns + round(at_s * S))
                values.append(value)
        self._lost += habits.lost_per_step(index)
        return found

    def _begin_step(self, index: int) -> None:
        habits = self._habits
        if index in habits.restarts:
            self._generated = self._prompted = self._preempted = 0.0
            self._lost = self._cached = 0.0
            self._left = self._done = np.empty(0)
        if index - 1 in habits.stuck:
            self._left = self._done = np.empty(0)
        if not self._run.is_async or index == 0:
            self._admit(int(habits.num_requests(index)), index)

    def _admit(self, number: int, index: int) -> None:
        habits, rng = self._habits, self._rng
        lengths = habits.length(index) * np.exp(
            habits.spread * rng.standard_normal(number) - habits.spread**2 / 2
        )
        aborted = rng.random(number) < habits.abort_ratio(index)
        lengths[aborted] *= rng.uniform(0.1, 0.9, int(aborted.sum()))
        self._lost += habits.lost_per_abort(index) * float(aborted.sum())
        self._left = np.concatenate([self._left, np.maximum(8, lengths)])
        self._done = np.concatenate([self._done, np.full(number, 128.0)])
        self._prompted += 128.0 * number

    def _decode(self, tokens: float, blocks: float, index: int, keeps_one: bool) -> None:
        if not len(self._left):
            return
        room = max(1.0, blocks - self._lost)
        held = np.cumsum(np.ceil(self._done / _BLOCK))
        running = held <= room
        running[0] = True
        # Who does not fit loses what it had and waits.
        thrown = ~running & (self._done > 128)
        self._preempted += float(thrown.sum())
        self._left[thrown] += self._done[thrown] - 128
        self._done[thrown] = 128.0
        made = np.asarray(np.where(running, np.minimum(tokens, self._left), 0.0), dtype=np.float64)
        self._generated += round(float(made.sum()))
        self._left, self._done = self._left - made, self._done + made
        if keeps_one:
            self._left[0] = max(self._left[0], 4 * tokens)
        over = self._left <= 0
        kept = self._habits.evictable_kept * float(np.ceil(self._done[over] / _BLOCK).sum())
        self._cached = min(self._cached + kept, 0.95 * room)
        self._left, self._done = self._left[~over], self._done[~over]

    def _page(self, blocks: float, *, asleep: bool) -> dict[str, float]:
        held = np.cumsum(np.ceil(self._done / _BLOCK))
        room = max(1.0, blocks - self._lost)
        running = int((held <= room).sum()) if len(held) else 0
        running = max(running, min(1, len(held)))
        waiting = len(held) - running
        used = min(blocks, self._lost + (float(held[running - 1]) if running else 0.0))
        if self._run.kind == "sglang":
            tokens = blocks * _BLOCK
            return {
                "sglang:num_running_reqs": float(running),
                "sglang:num_queue_reqs": float(waiting),
                "sglang:num_used_tokens": used * _BLOCK,
                "sglang:token_usage": min(1.0, (used + self._cached) / blocks),
                "sglang:max_total_num_tokens": tokens,
                "sglang:generation_tokens_total": self._generated,
                "sglang:prompt_tokens_total": self._prompted,
                "sglang:num_retracted_requests_total": self._preempted,
            }
        page = {
            "vllm:num_requests_running": float(running),
            "vllm:num_requests_waiting": float(waiting),
            "vllm:kv_cache_usage_perc": used / blocks,
            "vllm:generation_tokens_total": self._generated,
            "vllm:prompt_tokens_total": self._prompted,
            "vllm:num_preemptions_total": self._preempted,
            f'vllm:cache_config_info{{num_gpu_blocks="{blocks:.0f}",block_size="16"}}': 1.0,
        }
        if self._run.sleeps:
            page['vllm:engine_sleep_state{sleep_state="awake"}'] = float(not asleep)
            page['vllm:engine_sleep_state{sleep_state="weights_offloaded"}'] = float(asleep)
        return page

    def _measure(self, index: int, window: RestWindow) -> Rest | None:
        if window.end_ns <= window.start_ns:
            return None
        trainer = 30.0 if window.stage == "update_actor" else 0.0
        device = 45.0 + self._habits.device_gib(index) + trainer + self._rng.normal(0, 0.15)
        host = self._habits.host_gib(index) + self._rng.normal(0, 3.0)
        return replace(
            Rest(window.stage, window.sleep, 1),
            device_bytes=min(140.0, device) * _GIB,
            device_total_bytes=140 * _GIB,
            host_bytes=min(2_000.0, host) * _GIB,
            host_total_bytes=2_000 * _GIB,
        )
