"""Pretend series of rollout engines for tests of leak detection: leaks, and what looks like one.

Everything passes through the engines' own series as a scraper sees them; detectors get no shortcut.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from longpole_server.alerts.engines import EngineStep, Rest
from longpole_server.alerts.history import StepPoint
from longpole_server.alerts.rest import RestWindow, Samples, observe_engine, with_memory
from longpole_server.model.step import StageTime, Step

S = 1_000_000_000
BEGIN_NS = 1_700_000_000 * S
RUN_ID = "team/run"
_STAGES = (("gen", 0.0, 0.6), ("old_log_prob", 0.6, 0.72), ("update_actor", 0.72, 0.93))
_SYNC = ("update_weights", 0.93, 1.0)
_GIB = float(1 << 30)

Rng = np.random.Generator
Floor = Callable[[int], float]


@dataclass
class EnginePlan:
    """One replica's life.

    Attributes:
        floor: Part of the KV pool that stays taken at rest, by index of the step from 0.
        gives_way: Whether that is a cache's, which requests push out before anybody is preempted.
        evictable: The same, of pages that a cache would give up; engines report them apart.
        device: Part of its GPUs' memory that is taken at rest.
        host: Part of its node's memory.
        pool: Blocks (or tokens) of the KV pool.
        load: Part of the pool that samples take while they run, at their most.
        response: Mean tokens of a response.
        restarts: Steps before which the engine was started anew.
        freezes: Steps whose samples were aborted: gauges freeze at what they showed last.
        straggler: Steps in which one request runs on until the next step.
        noise: Standard deviation of the floor, as part of the pool.
    """

    floor: Floor
    gives_way: bool = False
    evictable: Floor = lambda index: 0.0
    device: Floor = lambda index: 0.6
    host: Floor = lambda index: 0.3
    pool: Callable[[int], int] = lambda index: 20_000
    load: float = 0.5
    response: Floor = lambda index: 800.0
    restarts: frozenset[int] = frozenset()
    freezes: frozenset[int] = frozenset()
    straggler: Callable[[int], bool] = lambda index: False
    noise: float = 0.002


@dataclass
class EngineRun:
    """A run of several replicas.

    Attributes:
        engine: `vllm` or `sglang`.
        is_never_at_rest: Fully asynchronous: something always runs.
        says_sleep: Whether the engine tells its sleep state, and sleeps while the trainer works.
        releases_kv: Whether the cache is given away while the trainer updates.
    """

    replicas: Mapping[str, EnginePlan]
    num_steps: int
    step_s: float = 120.0
    scrape_s: float = 5.0
    engine: str = "vllm"
    is_never_at_rest: bool = False
    says_sleep: bool = False
    releases_kv: bool = False
    first_step: int = 1
    scalars: Callable[[int], Mapping[str, float]] = field(default=lambda index: {})


def make_points(run: EngineRun, rng: Rng) -> list[StepPoint]:
    """Return the steps of a run as an evaluator sees them."""
    lives = {name: _Life(name, plan, run, rng) for name, plan in run.replicas.items()}
    points: list[StepPoint] = []
    for index in range(run.num_steps):
        step = make_step(run, index)
        engines = {name: life.observe(index, step) for name, life in lives.items()}
        points.append(StepPoint(step, run.scalars(index), engines=engines))
    return points


def make_step(run: EngineRun, index: int) -> Step:
    """Return a closed step with the windows of its stages."""
    start_ns = BEGIN_NS + round(index * run.step_s * S)
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
            ((start_ns + round(begin * run.step_s * S), start_ns + round(end * run.step_s * S)),),
        )
        for name, begin, end in (*_STAGES, _SYNC)
    )
    return Step(
        run_id=RUN_ID,
        step=run.first_step + index,
        attempt=1,
        start_ns=start_ns,
        end_ns=start_ns + round(run.step_s * S),
        duration_s=run.step_s,
        closed_by="loop",
        stages=stages,
        unattributed_s=0.0,
        outside=(),
    )


class _Scrape(NamedTuple):
    ts_ns: int
    running: float
    used: float
    tokens: float
    preempted: float
    is_asleep: bool


class _Life:
    """One replica: its counters go on from step to step."""

    def __init__(self, name: str, plan: EnginePlan, run: EngineRun, rng: Rng) -> None:
        self._name = name
        self._plan = plan
        self._run = run
        self._rng = rng
        self._tokens: float = float(rng.integers(1_000, 1_000_000))
        self._preempted: float = 0.0
        # The last scrapes of the step before: an evaluator reads a little of it too.
        self._before: dict[str, tuple[list[int], list[float]]] = {}

    def observe(self, index: int, step: Step) -> EngineStep:
        """Return what a scraper saw of a step."""
        series = self.scrape(index, step)
        both = {
            name: Samples(
                np.array([*self._before.get(name, ([], []))[0], *times], dtype=np.int64),
                np.array([*self._before.get(name, ([], []))[1], *values]),
            )
            for name, (times, values) in series.items()
        }
        self._before = {name: (times[-4:], values[-4:]) for name, (times, values) in series.items()}
        engine, windows = observe_engine(self._name, both, step)
        return with_memory(engine, windows, lambda window: self._measure(index, window))

    def scrape(self, index: int, step: Step) -> dict[str, tuple[list[int], list[float]]]:
        """Return the series of a step, as the engine's page shows them."""
        run, plan, rng = self._run, self._plan, self._rng
        if index in plan.restarts:
            self._tokens = self._preempted = 0.0
        pool = plan.pool(index)
        floor = min(1.0, max(0.0, plan.floor(index) + rng.normal(0, plan.noise)))
        peak = plan.load * rng.uniform(0.9, 1.1)
        running_most = int(rng.integers(100, 140))
        rate = running_most * plan.response(index) / (0.6 * run.step_s)
        # The last samples of a step end somewhere before its gen stage does.
        gen_end = 0.6 * rng.uniform(0.93, 0.995)
        frozen: tuple[float, float] | None = None
        kept = 0.0 if plan.gives_way else plan.floor(index)
        over = max(0.0, kept + peak - 0.97)
        seen: list[_Scrape] = []
        phase = rng.uniform(0, run.scrape_s)
        for count in range(int(run.step_s / run.scrape_s)):
            at_s = phase + count * run.scrape_s
            at = at_s / run.step_s
            ts_ns = step.start_ns + round(at_s * S)
            is_busy = at < gen_end or run.is_never_at_rest
            left = 1.0 if run.is_never_at_rest else max(0.0, 1.0 - (at / gen_end) ** 4)
            running = float(max(1, round(running_most * left))) if is_busy else 0.0
            used = min(1.0, floor + (peak * left if is_busy else 0.0))
            if is_busy:
                self._tokens += rate * left * run.scrape_s * rng.uniform(0.9, 1.1)
                if over:
                    self._preempted += float(rng.poisson(60 * over * run.scrape_s / 5))
            elif plan.straggler(index):
                running, used = 1.0, min(1.0, floor + 0.01)
                self._tokens += 40.0 * run.scrape_s
            is_away = not is_busy and 0.72 <= at < 0.93
            if run.releases_kv and is_away:
                used = 0.0
            if index in plan.freezes and at > 0.8 * gen_end:
                # Aborted all at once: nothing computes any more, and gauges stay as they were.
                frozen = frozen or (running, used)
                running, used = frozen
            is_asleep = run.says_sleep and is_away
            seen.append(_Scrape(ts_ns, running, used, self._tokens, self._preempted, is_asleep))
        page = self._page(seen, float(pool), plan.evictable(index))
        times = [each.ts_ns for each in seen]
        return {name: (times, values) for name, values in page.items()} if seen else {}

    def _page(
        self, seen: Sequence[_Scrape], pool: float, evictable: float
    ) -> dict[str, list[float]]:
        """Return the series of the scrapes of a step, as the engine's page names them."""
        running, used = [each.running for each in seen], [each.used for each in seen]
        tokens, preempted = [each.tokens for each in seen], [each.preempted for each in seen]
        none, one = [0.0] * len(seen), [1.0] * len(seen)
        if self._run.engine == "sglang":
            return {
                "sglang:num_running_reqs": running,
                "sglang:num_queue_reqs": none,
                "sglang:num_used_tokens": [round(each * pool) for each in used],
                "sglang:token_usage": [min(1.0, each + evictable) for each in used],
                "sglang:max_total_num_tokens": [pool] * len(seen),
                'sglang:realtime_tokens_total{mode="decode"}': tokens,
                "sglang:num_retracted_requests_total": preempted,
            }
        page: dict[str, list[float]] = {
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": none,
            "vllm:kv_cache_usage_perc": used,
            "vllm:generation_tokens_total": tokens,
            "vllm:prompt_tokens_total": [round(each / 4) for each in tokens],
            "vllm:num_preemptions_total": preempted,
            f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{pool:.0f}"}}': one,
        }
        if self._run.says_sleep:
            asleep = [float(each.is_asleep) for each in seen]
            page['vllm:engine_sleep_state{sleep_state="awake"}'] = [1.0 - each for each in asleep]
            page['vllm:engine_sleep_state{sleep_state="discard_all"}'] = asleep
        return page

    def _measure(self, index: int, window: RestWindow) -> Rest | None:
        if window.end_ns <= window.start_ns:
            return None
        device = self._plan.device(index) + self._rng.normal(0, 0.002)
        if window.stage == "update_actor":
            device += 0.2
        host = self._plan.host(index) + self._rng.normal(0, 0.004)
        return replace(
            Rest(window.stage, window.sleep, 1),
            device_bytes=device * 80 * _GIB,
            device_total_bytes=80 * _GIB,
            host_bytes=host * 1_000 * _GIB,
            host_total_bytes=1_000 * _GIB,
        )
