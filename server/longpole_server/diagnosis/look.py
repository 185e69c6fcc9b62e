"""One step as rules look at it: its facts, and what is known about the inside of its gen."""

from functools import cached_property

from longpole.conventions import metrics, stages
from longpole_server.analysis.modes import has_separate_pools, infer_mode
from longpole_server.diagnosis.engines import Engines, measure_engines
from longpole_server.diagnosis.inside_agent_loop import AGENT_LOOP, look_into_agent_loop
from longpole_server.diagnosis.inside_engines import add_engines
from longpole_server.diagnosis.inside_gen import InnerSource, InsideGen, is_usable, read_usable
from longpole_server.diagnosis.inside_samples import look_into_samples, span_seconds
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import RunFacts, StepFacts

# One step ahead, generation and its agent-loop figures belong to the step before; this is its time.
BACKGROUND_GEN = "timing_s/generate_async"


class Look:
    """One step with what is known about the inside of its gen, found when it is asked for."""

    def __init__(self, run: RunFacts, facts: StepFacts, limits: Limits) -> None:
        self.run = run
        self.facts = facts
        self._limits = limits

    @cached_property
    def engines(self) -> Engines | None:
        """The engines together, None when none reported."""
        return measure_engines(self.facts.engine_windows)

    @cached_property
    def source(self) -> InnerSource | None:
        """Who tells about the samples."""
        facts = self.facts
        if facts.trajectories is not None and len(facts.trajectories.durations_s):
            return "trajectories"
        if is_usable(facts.scalars.get(f"{AGENT_LOOP}generate_sequences/max")):
            return "agent_loop"
        return "engines" if self.engines is not None else None

    @cached_property
    def inside(self) -> InsideGen | None:
        """What is known about the samples, None when nobody tells."""
        facts, source = self.facts, self.source
        if source is None:
            return None
        gen_s = self.gen_s
        if source == "trajectories" and facts.trajectories is not None:
            found = look_into_samples(facts.trajectories, facts, gen_s, self._limits)
        elif source == "agent_loop":
            found = look_into_agent_loop(facts.scalars, gen_s)
        else:
            found = InsideGen()
        return found if self.engines is None else add_engines(found, self.engines, facts, gen_s)

    @cached_property
    def truncated_ratio(self) -> float | None:
        """Part of the training samples that end at the known cap."""
        return read_truncated_ratio(self.run, self.facts)

    @cached_property
    def gen_s(self) -> float | None:
        """How long samples were generated, which the trainer may wait for only in part."""
        facts = self.facts
        background_s = facts.scalars.get(BACKGROUND_GEN)
        if is_usable(background_s):
            return background_s
        mode = self.run.mode or infer_mode(facts.scalars)
        if has_separate_pools(mode) and facts.trajectories is not None:
            return span_seconds(facts.trajectories)
        gen = facts.step.stage(stages.GEN) or facts.step.stage(stages.TRAINER_WAIT)
        return gen.inclusive_s if gen is not None else None


def look_at(run: RunFacts, facts: StepFacts, limits: Limits) -> Look:
    """Look at one step."""
    return Look(run, facts, limits)


def read_truncated_ratio(run: RunFacts, facts: StepFacts) -> float | None:
    """Return the part of training samples that end at the known cap, None when it is unknown.

    verl's default trainer computes its clip ratio against the longest sample of the batch: there
    it counts only when the longest is known to be the cap.
    """
    trajectories = facts.trajectories
    cap = run.response_length_cap
    if trajectories is not None:
        statuses = [status for status in trajectories.statuses if status is not None]
        if statuses:
            return statuses.count("truncated") / len(statuses)
        lengths = [tokens for tokens in trajectories.output_tokens if tokens is not None]
        if cap and lengths:
            return sum(tokens >= cap for tokens in lengths) / len(lengths)
    ratio = metrics.read_metric("truncated_ratio", facts.scalars)
    if ratio is None or not 0.0 <= ratio <= 1.0:
        return None
    if "response_length/clip_ratio" not in facts.scalars:
        return ratio
    longest = read_usable(facts.scalars, "response_length/max")
    if cap:
        return ratio if longest is None or longest >= cap else 0.0
    clips_at_cap = any(key.startswith(AGENT_LOOP) for key in facts.scalars)
    return ratio if clips_at_cap else None
