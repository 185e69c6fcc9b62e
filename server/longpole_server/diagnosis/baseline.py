"""What a run's own past says is usual.

A baseline holds for one attempt with one configuration. It has two sides: the attempt's first
steady steps, frozen, so that a slow creep is seen; and the steps just before the judged ones, so
that a jump is seen in a run that became faster since its start.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.mfu import usable_mfu
from longpole_server.analysis.step_table import Flags, StepTable
from longpole_server.analysis.window import (
    DEVIATION_OF_MAD,
    NO_CYCLES,
    Cycles,
    summarise_window,
)
from longpole_server.model.facts import RunFacts, StepFacts
from longpole_server.model.step import Step

MIN_STEPS = 5
# Steps of the frozen side, and of the recent one.
BASELINE_STEPS = 20

# Stages whose seconds grow with the tokens of a step; the others' do not.
TOKEN_STAGES = frozenset(
    {
        stages.GEN,
        stages.OLD_LOG_PROB,
        stages.REF,
        stages.VALUES,
        stages.MAKE_EXPERIENCE,
        stages.UPDATE_ACTOR,
        stages.UPDATE_CRITIC,
    }
)

# Ends of the settings that make steps of one run incomparable, in verl's and others' spelling.
_SETTINGS = (
    *("train_batch_size", "gen_batch_size", "rollout_batch_size", "global_batch_size"),
    *("rollout.n", "num_generations", "n_samples_per_prompt", "group_size"),
    *("max_prompt_length", "max_response_length", "max_completion_length", "max_new_tokens"),
    *("model.path", "model_name_or_path", "hf_checkpoint"),
)


@dataclass(frozen=True, slots=True)
class Baseline:
    """Means over earlier steady steps of the same run, attempt and configuration.

    Attributes:
        stage_s: Exclusive seconds a step by stage.
        tokens: Tokens a step.
        scatter: Robust standard deviation of a single step by stage, as a part of the median;
            of seconds a token where the stage grows with tokens.
        cycles: What comes every few steps.
        attempt: The attempt that it holds for; None holds for any.
        gpu_count: GPUs of its steps; None holds for any.
        configuration: As `describe_configuration` puts it; None holds for any.
        steps: The steps behind it, without their windows.
        recent: The same over the steps just before the judged ones; None without any.
        when: Where its steps lie, as it ends a sentence.
    """

    num_steps: int
    step_s: float
    stage_s: Mapping[str, float]
    tokens: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu_actor: float | None = None
    scatter: Mapping[str, float] = field(default_factory=dict[str, float])
    cycles: Cycles = NO_CYCLES
    attempt: int | None = None
    gpu_count: int | None = None
    configuration: str | None = None
    steps: tuple[Step, ...] = ()
    recent: "Baseline | None" = None
    when: str = "in the attempt's first steady steps"

    def holds_for(self, steps: StepTable) -> Flags:
        """Flag the steps that may be compared with this baseline."""
        flags = np.ones(len(steps), dtype=np.bool_)
        if self.attempt is not None:
            flags &= steps.attempts == self.attempt
        if self.gpu_count is not None:
            gpu_counts = steps.column("gpu_count")
            flags &= np.isnan(gpu_counts) | (gpu_counts == self.gpu_count)
        return flags


def make_baseline(steps: Sequence[StepFacts], num_steps: int = BASELINE_STEPS) -> Baseline | None:
    """Return the baseline of the first steady steps.

    Args:
        steps: Steps of one attempt in order, from its first.
        num_steps: How many judged steps make the baseline.

    Returns:
        None when fewer than five steps can be judged.
    """
    return summarise_past([facts.step for facts in steps[: num_steps + 1]])


def find_baseline(run: RunFacts, steps: Sequence[Step], judged: Sequence[Step]) -> Baseline | None:
    """Return what was usual when the attempt of the judged steps began, and just before them.

    For runs of which all steps are at hand; a server reads the same from its store.

    Args:
        run: What the run says about itself.
        steps: All steps of the run, in order.
        judged: The steps to compare, in order.
    """
    if not judged:
        return None
    whole, compared = StepTable.of(steps), StepTable.of(judged)
    attempt = int(compared.attempts[-1])
    mine = whole.where((whole.attempts == attempt) & whole.has_duration)
    compared = compared.where(compared.attempts == attempt)
    if not mine:
        return None
    starts = {attempt: int(mine.numbers[0])}
    counts = compared.known("gpu_count")
    if counts:
        gpu_counts = mine.column("gpu_count")
        mine = mine.where(np.isnan(gpu_counts) | (gpu_counts == counts[-1]))
    configuration = describe_configuration(run)
    # The attempt's first step warms up and is left out.
    steady = mine.where(mine.numbers != starts[attempt])
    frozen = summarise_past(steady[:BASELINE_STEPS], starts, configuration)
    if frozen is None:
        return None
    before = mine.where(mine.numbers < compared.numbers[0])
    recent = summarise_past(before[-BASELINE_STEPS:], starts, configuration)
    return replace(frozen, recent=recent)


def summarise_past(
    steps: Sequence[Step],
    attempt_starts: Mapping[int, int] | None = None,
    configuration: str | None = None,
    *,
    is_kept: bool = True,
) -> Baseline | None:
    """Return what some steps of one attempt and configuration say is usual.

    Args:
        steps: Closed steps in order.
        attempt_starts: First step of the attempt, which warms up; None takes the first given.
        configuration: What they were made with.
        is_kept: Whether the baseline is kept for long: then its steps are without their windows.

    Returns:
        None when fewer than five steps can be judged.
    """
    window = summarise_window(steps, attempt_starts)
    judged = window.judged
    if len(judged) < MIN_STEPS or window.step_s is None:
        return None
    counts = [step.gpu_count for step in judged if step.gpu_count is not None]
    attempts = {step.attempt for step in judged}
    return Baseline(
        num_steps=len(judged),
        step_s=window.step_s,
        stage_s=window.stage_s,
        tokens=mean_known([step.tokens_total for step in judged]),
        tokens_per_s_per_gpu=mean_known([step.throughput_tokens_per_s_per_gpu for step in judged]),
        mfu_actor=mean_known([usable_mfu(step.mfu_actor) for step in judged]),
        scatter=_scatter(judged),
        cycles=window.cycles,
        attempt=attempts.pop() if len(attempts) == 1 else None,
        gpu_count=statistics.mode(counts) if counts else None,
        configuration=configuration,
        steps=tuple(map(without_windows, judged) if is_kept else judged),
    )


def describe_configuration(run: RunFacts) -> str:
    """Return what makes steps of a run comparable: GPUs, cap, batch and model, as one key."""
    settings = sorted(
        f"{key}={value}" for key, value in run.config.items() if key.endswith(_SETTINGS)
    )
    return "|".join(
        (
            f"gpus={run.gpu_count}",
            f"cap={run.response_length_cap}",
            f"model={run.model_name}",
            *settings,
        )
    )


def has_gpu_count(step: Step, gpu_count: int | None) -> bool:
    """Tell whether nothing says that a step ran on another number of GPUs."""
    return gpu_count is None or step.gpu_count in (None, gpu_count)


def without_windows(step: Step) -> Step:
    """Return a step with what is kept of it for long: its ledger without every single window."""
    bare = tuple(replace(stage, windows=()) for stage in step.stages)
    return replace(step, stages=bare, notes=())


def known_cycles(baseline: Baseline | None) -> Cycles:
    """Return what is known of periodic costs: from recent steps, else from the first ones."""
    if baseline is None:
        return NO_CYCLES
    recent = NO_CYCLES if baseline.recent is None else baseline.recent.cycles
    return Cycles(
        {**baseline.cycles.inside, **recent.inside}, {**baseline.cycles.outside, **recent.outside}
    )


def _scatter(judged: Sequence[Step]) -> dict[str, float]:
    """Return the scatter of single steps by stage, of those that every step has."""
    per_token = all(step.tokens_total for step in judged)
    columns: dict[str, list[float]] = {}
    for step in judged:
        for stage in step.stages:
            tokens = step.tokens_total if per_token and stage.stage in TOKEN_STAGES else None
            columns.setdefault(stage.stage, []).append(stage.exclusive_s / (tokens or 1))
        columns.setdefault(stages.UNATTRIBUTED, []).append(step.unattributed_s or 0.0)
    scatter: dict[str, float] = {}
    for stage, values in columns.items():
        column = np.array(values)
        median = float(np.median(column))
        if len(values) == len(judged) and median > 0:
            deviation = float(np.median(np.abs(column - median)))
            scatter[stage] = DEVIATION_OF_MAD * deviation / median
    return scatter


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of what is known, None when nothing is."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
