"""A language for diagnosis scenarios: a synthetic run in YAML and what must be said about it.

about: one line
run: {system, mode, gpu_count, response_length_cap, config, model_config, ...}
steps: 20                      number of steps, from 1
jitter: 0.03                   relative scatter of every stage
seconds: {gen: 150, ...}       stages of a step
between: 2                     unattributed seconds of a step
every: {testing: {period: 10, seconds: 60}}    periodic timers, outside the step
at: {7: {gen: 900}}            seconds of single steps
scalars: {name: value}         logged in every step
samples: {count, mean_s, slowest_s, mean_tokens, slowest_tokens, tool_ratio, score_ratio,
          truncated_ratio, preemptions}
gpus: [{stage, role, gpu_count, seconds, sm_active_ratio}]
baseline: {seconds: {...}, between: 2, scalars: {...}}
overrides: {threshold: value}
expect: {verdict, cause, confidence, findings, no_findings, notes, no_notes, next_key,
         shares: {stage: value}}
"""

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from longpole_server.diagnosis import Baseline, diagnose, make_baseline
from longpole_server.model.diagnosis import Diagnosis
from longpole_server.model.facts import GpuWindow, RunFacts, StepFacts, TrajectoryFacts
from support.steps import facts, samples

SCENARIOS = Path(__file__).parents[1] / "scenarios"
Scenario = Mapping[str, Any]


def load(path: Path) -> Scenario:
    """Read one scenario."""
    return yaml.safe_load(path.read_text())


def play(scenario: Scenario, seed: int = 0) -> Diagnosis:
    """Build the synthetic run and diagnose it."""
    run = _run(scenario)
    steps = _steps(scenario, run, random.Random(seed))
    return diagnose(run, steps, _baseline(scenario, run, seed), overrides=scenario.get("overrides"))


def _run(scenario: Scenario) -> RunFacts:
    return RunFacts("scenario", "scenario", **({"system": "verl"} | scenario.get("run", {})))


def _baseline(scenario: Scenario, run: RunFacts, seed: int) -> Baseline | None:
    if "baseline" not in scenario:
        return None
    usual = {"steps": 20, **scenario["baseline"]}
    return make_baseline(_steps(usual, run, random.Random(seed + 1)))


def _steps(scenario: Scenario, run: RunFacts, chance: random.Random) -> list[StepFacts]:
    jitter = scenario.get("jitter", 0.03)
    made: list[StepFacts] = []
    for number in range(1, scenario.get("steps", 20) + 1):
        # Steps of one run are longer and shorter as a whole too.
        length = 1 + chance.uniform(-jitter, jitter)
        seconds = {
            stage: value * length * (1 + chance.uniform(-jitter, jitter))
            for stage, value in scenario["seconds"].items()
        } | scenario.get("at", {}).get(number, {})
        scalars = dict(scenario.get("scalars", {}))
        for stage, periodic in scenario.get("every", {}).items():
            if number % periodic["period"] == 0:
                scalars[f"timing_s/{stage}"] = periodic["seconds"]
        made.append(
            facts(
                seconds,
                scalars,
                run=run,
                step=number,
                step_s=sum(seconds.values()) + scenario.get("between", 1.0),
                trajectories=_samples(scenario.get("samples"), chance),
                gpu_windows=[GpuWindow(**window) for window in scenario.get("gpus", [])],
            )
        )
    return made


def _samples(shape: Scenario | None, chance: random.Random) -> TrajectoryFacts | None:
    """Return samples whose times lie evenly around the mean, beside one slowest."""
    if shape is None:
        return None
    count = shape.get("count", 256)
    mean_s, slowest_s = shape["mean_s"], shape["slowest_s"]
    low = (mean_s * count - slowest_s) / (count - 1)
    durations = [min(low * chance.uniform(0.9, 1.1), slowest_s) for _ in range(count - 1)]
    durations.append(slowest_s)
    tokens = None
    if "mean_tokens" in shape:
        tokens = [round(shape["mean_tokens"] * duration / mean_s) for duration in durations]
        tokens[-1] = shape.get("slowest_tokens", tokens[-1])
    replicas = [f"replica-{at % shape.get('replicas', 1)}" for at in range(count)]
    if "slow_replica" in shape:
        factor = shape["slow_replica"]
        durations = [
            duration * (factor if replica == "replica-0" else 1.0)
            for duration, replica in zip(durations, replicas, strict=True)
        ]
    num_truncated = math.ceil(shape.get("truncated_ratio", 0) * count)
    return samples(
        durations,
        tokens,
        tool_s=_parts(shape, "tool_ratio", durations),
        score_s=_parts(shape, "score_ratio", durations),
        statuses=["truncated"] * num_truncated + ["success"] * (count - num_truncated),
        preemptions=[shape.get("preemptions", 0)] * count,
        replicas=replicas,
    )


def _parts(shape: Scenario, name: str, durations: list[float]) -> list[float | None] | None:
    if name not in shape:
        return None
    return [shape[name] * duration for duration in durations]
