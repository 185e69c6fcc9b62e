"""The same run with all its data, as a bare log, and as messy as real data can be."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from longpole_server.analysis.ledger import assemble_step
from longpole_server.model.facts import RunFacts, StepFacts, StepInputs, TrajectoryFacts
from longpole_server.model.records import StageSpan
from longpole_sim.plan import StepPlan
from longpole_sim.scalars import step_scalars
from longpole_sim.seeding import random_for
from longpole_sim.workload import Run
from support.offline_facts import (
    at_ns,
    make_log_facts,
    make_run_facts,
    make_spans,
    make_step_facts,
)

FULL, SCALARS, NOISY = "full", "scalars", "noisy"
VARIANTS = (FULL, SCALARS, NOISY)
_FIELDS = {
    "trajectories": "trajectories",
    "gpus": "gpus",
    "engines": "engine_windows",
    "sync_phases": "sync_phases",
}
# Part of the runs whose log says nothing of the configuration.
_UNCONFIGURED = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """What is known of a run in one variant of its data."""

    run: RunFacts
    steps: tuple[StepFacts, ...]
    variant: str


class Recording:
    """A planned run with everything that could be known of it, made once for all variants."""

    def __init__(self, run: Run, plans: Sequence[StepPlan]) -> None:
        self.run = run
        self.plans = _latest([plan for plan in plans if plan.incident is None])
        self.facts = make_run_facts(run)

    @cached_property
    def steps(self) -> list[StepFacts]:
        """Every step with all its data."""
        rows = zip(self.plans, self.scalars, strict=True)
        return [make_step_facts(self.run, plan, self.facts, scalars) for plan, scalars in rows]

    @cached_property
    def scalars(self) -> list[dict[str, float]]:
        """What the trainer logs of every step."""
        return [step_scalars(self.run, plan) for plan in self.plans]

    def observe(self, variant: str) -> Observed:
        """Return what diagnosis gets to see."""
        if variant == FULL:
            return Observed(self.facts, tuple(self.steps), variant)
        chance = random_for("observed", variant, self.run.scenario.name, self.run.seed)
        if variant == SCALARS:
            return _as_log(self, chance)
        return _as_mess(self, chance)


def without(observed: Observed, *layers: str) -> Observed:
    """Return what is left when layers are not reported.

    Layers are `trajectories`, `gpus`, `engines` and `sync_phases`.
    """
    nothing: dict[str, Any] = {}
    for layer in layers:
        nothing[_FIELDS[layer]] = None if layer == "trajectories" else ()
        if layer == "gpus":
            nothing["gpu_windows"] = ()
    steps = tuple(dataclasses.replace(facts, **nothing) for facts in observed.steps)
    return dataclasses.replace(observed, steps=steps)


def _latest(plans: Sequence[StepPlan]) -> list[StepPlan]:
    """Return the latest attempt of each step, in order."""
    found: dict[int, StepPlan] = {}
    for plan in plans:
        found[plan.step] = plan
    return [found[step] for step in sorted(found)]


def _as_log(recording: Recording, chance: random.Random) -> Observed:
    facts = recording.facts
    bare = RunFacts(run_id=facts.run_id, name=facts.name, system=facts.system)
    if chance.random() > _UNCONFIGURED:
        bare = dataclasses.replace(
            bare,
            response_length_cap=facts.response_length_cap,
            config=facts.config,
            mode=facts.mode,
        )
    rows = zip(recording.plans, recording.scalars, strict=True)
    return Observed(
        bare, tuple(make_log_facts(plan, scalars, bare) for plan, scalars in rows), SCALARS
    )


# --- noise ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class _Mess:
    """What a messy run lacks or gets wrong."""

    has_spans: bool
    has_samples: bool
    has_gpus: bool
    has_engines: bool
    has_phases: bool
    says_mode: bool
    says_model: bool
    sample_ratio: float
    jitter_ratio: float
    lost_scalars: frozenset[str]


def _draw_mess(chance: random.Random, scalars: Mapping[str, float]) -> _Mess:
    lost = {name for name in sorted(scalars) if chance.random() < 0.05}
    lost -= {"timing_s/step", "perf/time_per_step"}
    # A trainer logs a stage's time or does not: stages stay, or the log would tell another story.
    lost -= {name for name in lost if name.startswith("timing_s/") and "agent_loop" not in name}
    return _Mess(
        has_spans=chance.random() < 0.8,
        has_samples=chance.random() < 0.6,
        has_gpus=chance.random() < 0.6,
        has_engines=chance.random() < 0.5,
        has_phases=chance.random() < 0.5,
        says_mode=chance.random() < 0.8,
        says_model=chance.random() < 0.7,
        sample_ratio=chance.choice((1.0, 1.0, 0.9, 0.5)),
        jitter_ratio=chance.uniform(0.0, 0.01),
        lost_scalars=frozenset(lost),
    )


def _as_mess(recording: Recording, chance: random.Random) -> Observed:
    mess = _draw_mess(chance, recording.scalars[0])
    facts = dataclasses.replace(
        recording.facts,
        mode=recording.facts.mode if mess.says_mode else None,
        model_config=recording.facts.model_config if mess.says_model else None,
    )
    rows = list(zip(recording.plans, recording.steps, strict=True))
    kept = [row for row in rows if chance.random() > 0.08] or rows
    steps = tuple(_mess_up(recording.run, plan, whole, facts, mess, chance) for plan, whole in kept)
    return Observed(facts, steps, NOISY)


def _mess_up(
    run: Run,
    plan: StepPlan,
    whole: StepFacts,
    facts: RunFacts,
    mess: _Mess,
    chance: random.Random,
) -> StepFacts:
    scalars = {
        name: value * (1 + chance.gauss(0.0, 0.002) if "timing" in name else 1.0)
        for name, value in whole.scalars.items()
        if name not in mess.lost_scalars
    }
    if chance.random() < 0.1:
        scalars["critic/score/mean"] = float("nan")
    spans: list[StageSpan] = []
    if mess.has_spans:
        for span in make_spans(run, plan):
            # Clocks of one process agree to a millisecond.
            skew_ns = 0 if span.is_loop else round(chance.gauss(0.0, 0.5e6))
            spans.append(
                dataclasses.replace(
                    span,
                    start_ns=span.start_ns + skew_ns,
                    end_ns=max(span.start_ns + skew_ns, span.end_ns + skew_ns),
                )
            )
        spans += chance.sample(spans, k=min(2, len(spans)))
    step = assemble_step(
        StepInputs(
            facts,
            plan.attempt,
            plan.step,
            spans,
            scalars,
            scalars_ns=at_ns(plan, plan.duration_s),
            sequence_lengths=plan.sequence_lengths if mess.has_samples else (),
            response_lengths=(
                [item.output_tokens for item in plan.trajectories] if mess.has_samples else ()
            ),
        )
    )
    samples = None
    if mess.has_samples and whole.trajectories is not None:
        samples = _thin_out(whole.trajectories, mess, chance)
    return StepFacts(
        step,
        scalars,
        samples,
        whole.gpu_windows if mess.has_gpus else (),
        whole.engine_windows if mess.has_engines else (),
        whole.sync_phases if mess.has_phases else (),
        whole.gpus if mess.has_gpus else (),
    )


def _thin_out(
    samples: TrajectoryFacts, mess: _Mess, chance: random.Random
) -> TrajectoryFacts | None:
    """Return the samples that arrived, some of them without some of their columns."""
    rows = [row for row in range(len(samples.start_ns)) if chance.random() < mess.sample_ratio]
    if not rows:
        return None
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(samples):
        values = getattr(samples, field.name)
        columns[field.name] = [values[row] for row in rows]
    columns["durations_s"] = [
        seconds * (1 + chance.gauss(0.0, mess.jitter_ratio)) for seconds in columns["durations_s"]
    ]
    for name in ("generate_s", "queue_s", "preemptions", "statuses"):
        if chance.random() < 0.1:
            columns[name] = [None] * len(rows)
    return TrajectoryFacts(**columns)
