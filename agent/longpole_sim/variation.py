"""Draws runs of a kind: other clusters, lengths, speeds and shares, with the same thing wrong.

Everything comes from the seed and the scenario's name. A draw that is no clear example of its
scenario's verdict is thrown away and drawn again, so that the label of what is returned is true.
"""

import dataclasses
import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from longpole_sim.cluster import Cluster
from longpole_sim.library import LIBRARY
from longpole_sim.plan import StepPlan
from longpole_sim.scenario import Mode, Scenario
from longpole_sim.seeding import random_for
from longpole_sim.truth import Truth, find_truth
from longpole_sim.workload import Run, make_run, plan_run

MAX_DRAWS = 60
_FIRST_STEPS = 3
# (nodes, GPUs of each, samples per GPU): a few hundred samples a step, so that a run is quick.
_POOL_SHAPES = ((2, 8, 16), (2, 8, 12), (4, 8, 8), (8, 8, 4))
_SHAPES = ((1, 8, 32), (1, 8, 16), (2, 8, 16), (2, 4, 24), (4, 8, 8), (2, 8, 12), (8, 8, 4))
# Every amount is up to this much larger or smaller, as a logarithm.
_SPREAD = 0.28
_USUAL_SAMPLES_PER_GPU = 32
_GROUP_SIZES = (4, 8, 16)
_POOL_MODES: tuple[Mode, ...] = ("fully_async", "fully_async", "separate_async", "one_step_off")
# Modes that only verl's newer trainer has.
_V1_MODES = ("colocate_async", "separate_async")
# Seconds that are not the model's: they grow with the scale of the run like everything else.
_SECONDS = ("reward_s", "sleep_wake_s", "prepare_s", "collect_s", "controller_s", "checkpoint_s")
_KNOBS = ("prompt", "response", "decode_speed", "actor_mfu", "infer_mfu", "sync", *_SECONDS)


@dataclass(frozen=True, slots=True)
class Example:
    """A drawn run with its steps and what is true of them."""

    run: Run
    plans: tuple[StepPlan, ...]
    truth: Truth
    num_draws: int


class NoExampleError(Exception):
    """No draw of a scenario was a clear example of it."""


def draw_example(
    name: str,
    seed: int,
    fixed: Mapping[str, object] | None = None,
    *,
    near_limits: bool = False,
) -> Example:
    """Return a run of the named scenario.

    Args:
        name: Of a scenario of the library.
        seed: Same seed, same run.
        fixed: Fields of the scenario that are not drawn.
        near_limits: Only runs that lie within a few percent of a limit, in place of clear ones.

    Raises:
        KeyError: No scenario has that name.
        NoExampleError: All draws were unclear: the scenario does not fit its label.
    """
    base = LIBRARY[name]
    last: Truth | None = None
    for draw in range(MAX_DRAWS):
        run = _draw(base, seed, draw, fixed or {})
        planned = plan_run(run, base.first_step - 1 + base.steps)
        plans: list[StepPlan] = []
        if base.change is None:
            # The first steps already tell most of what does not fit.
            plans += itertools.islice(planned, _FIRST_STEPS)
            last = find_truth(run, plans)
            if not _fits(base, last):
                continue
        plans += planned
        last = find_truth(run, plans)
        if _fits(base, last) and bool(last.doubts) == near_limits:
            return Example(run, tuple(plans), last, draw + 1)
    raise NoExampleError(f"{name}, seed {seed}: {last}")


def _fits(base: Scenario, truth: Truth) -> bool:
    return (truth.verdict, truth.cause) == (base.verdict, base.cause)


def _draw(base: Scenario, seed: int, draw: int, fixed: Mapping[str, Any]) -> Run:
    chance = random_for("example", base.name, seed, draw)
    nodes, gpus, samples_per_gpu = chance.choice(_SHAPES if base.pools is None else _POOL_SHAPES)
    scenario = _knobs(base, chance)
    # Fewer samples on a GPU make the update shorter; a larger model makes it longer again.
    more = base.samples_per_gpu / _USUAL_SAMPLES_PER_GPU
    model = base.model.scaled(_USUAL_SAMPLES_PER_GPU / samples_per_gpu)
    scenario = dataclasses.replace(
        scenario,
        samples_per_gpu=max(1, round(samples_per_gpu * more)),
        model=model,
        step_noise=chance.uniform(0.0, 0.03),
    )
    longer = math.exp(chance.uniform(math.log(0.6), math.log(10.0)))
    slower = math.exp(chance.uniform(math.log(0.7), math.log(4.0)))
    scenario = _slow_down(_lengthen(scenario, longer), slower)
    scenario = _times_seconds(scenario, longer * slower)
    scenario = dataclasses.replace(_habits(base, scenario, chance), **fixed)
    cluster = Cluster(nodes, gpus, tag=f"{base.name}-{seed}")
    return make_run(scenario, seed * 1_000 + draw, cluster=cluster)


def _knobs(base: Scenario, chance: random.Random) -> Scenario:
    """Return the scenario with every amount a little different."""
    scenario = base
    for name in _KNOBS:
        scenario = scenario.times(name, math.exp(chance.uniform(-_SPREAD, _SPREAD)))
    if base.group_size > 1:
        scenario = dataclasses.replace(scenario, group_size=chance.choice(_GROUP_SIZES))
    return scenario


def _lengthen(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with all lengths in tokens scaled."""
    kv, tools = scenario.kv_tokens, scenario.tools
    if tools is not None:
        last = max(8, round(tools.last_turn_tokens * factor))
        tools = dataclasses.replace(tools, last_turn_tokens=last)
    return dataclasses.replace(
        scenario,
        prompt=scenario.prompt.scaled(factor),
        response=scenario.response.scaled(factor),
        tools=tools,
        kv_tokens=None if kv is None else kv * factor,
    )


def _slow_down(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with a larger model: it decodes more slowly and trains for longer."""
    return dataclasses.replace(
        scenario,
        model=scenario.model.scaled(factor),
        decode_speed=scenario.decode_speed / factor,
        prefill_tokens_per_s=scenario.prefill_tokens_per_s / factor,
    )


def _times_seconds(scenario: Scenario, factor: float) -> Scenario:
    """Return the scenario with all seconds scaled that are not the model's work."""
    for name in _SECONDS:
        scenario = scenario.times(name, factor)
    tools, sync = scenario.tools, scenario.sync
    if tools is not None:
        tools = dataclasses.replace(tools, call=tools.call.scaled(factor))
    return dataclasses.replace(
        scenario,
        score=scenario.score.scaled(factor),
        sync=dataclasses.replace(
            sync,
            transfer_s=sync.transfer_s * factor,
            build_group_s=sync.build_group_s * factor,
        ),
        tools=tools,
    )


def _habits(base: Scenario, scenario: Scenario, chance: random.Random) -> Scenario:
    """Return the scenario with choices that its verdict does not depend on."""
    is_outside = base.verdict == "overhead.outside"
    mode = scenario.mode
    if base.pools is not None and base.lag == 1 and not base.lag_per_step:
        mode = chance.choice(_POOL_MODES)
    elif base.pools is None and chance.random() < 0.25:
        mode = "colocate_async"
    trainer = "v1" if mode in _V1_MODES else "v0"
    if mode == "sync" and chance.random() < 0.3:
        trainer = "v1"
    return dataclasses.replace(
        scenario,
        mode=mode,
        trainer=trainer,
        checkpoint_every=scenario.checkpoint_every if is_outside else chance.choice((0, 3, 5)),
        validation_every=scenario.validation_every if is_outside else chance.choice((0, 4, 10)),
    )
