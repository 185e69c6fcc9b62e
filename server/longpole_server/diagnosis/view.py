"""What rules look at: a window of steps, summed, beside everything known about its inside."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions import metrics, stages
from longpole_server.analysis.architectures import is_mixture_of_experts
from longpole_server.analysis.modes import has_separate_pools, infer_mode
from longpole_server.analysis.step_metrics import read_config_number
from longpole_server.analysis.window import Window, summarise_window
from longpole_server.diagnosis.baseline import Baseline, known_cycles, mean_known, usable_mfu
from longpole_server.diagnosis.inside_gen import (
    InnerSource,
    InsideGen,
    Look,
    combine,
)
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import GpuWindow, RunFacts, StepFacts
from longpole_server.model.step import Step


@dataclass(frozen=True, slots=True)
class View:
    """A window as rules see it. None is not known.

    Attributes:
        looks: The judged steps with their scalars.
        inside: What happened inside gen, and who said so.
        mode: As declared, else inferred.
        is_moe: Whether the model is a mixture of experts; None when nobody said.
        mfu_actor: As the trainer reports it, for its training passes alone.
        mfu_actor_stage: Computed over the whole update stage.
    """

    run: RunFacts
    limits: Limits
    window: Window
    looks: tuple[Look, ...]
    baseline: Baseline | None
    mode: str | None
    inside: InsideGen | None
    inside_source: InnerSource | None
    truncated_ratio: float | None
    is_moe: bool | None
    mfu_actor: float | None
    mfu_actor_stage: float | None
    mfu_infer: float | None
    mfu_step: float | None
    gpu_count: int | None

    @property
    def facts(self) -> tuple[StepFacts, ...]:
        """The judged steps."""
        return tuple(look.facts for look in self.looks)

    @property
    def separate_pools(self) -> bool:
        """Whether trainer and rollout hold GPUs of their own."""
        return has_separate_pools(self.mode)

    @property
    def step_s(self) -> float:
        """Mean seconds of a step; 0 without judged steps."""
        return self.window.step_s or 0.0

    @property
    def ledger_source(self) -> str:
        """Who measured the stages: `spans`, `scalars`, or `spans, scalars`."""
        sources = {stage.source for look in self.looks for stage in look.facts.step.stages}
        return ", ".join(f"{source}s" for source in sorted(sources, reverse=True))

    def seconds(self, *names: str) -> float:
        """Return seconds a step of the named stages together."""
        return sum(self.window.stage_s.get(name, 0.0) for name in names)

    def share(self, *names: str) -> float:
        """Return the part of the step that the named stages take together."""
        return sum(self.window.shares.get(name, 0.0) for name in names)

    def scalar(self, name: str) -> float | None:
        """Return the mean of a logged scalar over the judged steps."""
        return mean_known([facts.scalars.get(name) for facts in self.facts])

    def metric(self, name: str) -> float | None:
        """Return the mean of a canonical metric over the judged steps."""
        return mean_known([metrics.read_metric(name, facts.scalars) for facts in self.facts])

    def gpu_windows(self, *names: str) -> list[GpuWindow]:
        """Return what GPUs did during the named stages."""
        return [
            window for facts in self.facts for window in facts.gpu_windows if window.stage in names
        ]


def periods_of(config: Mapping[str, str]) -> dict[str, float]:
    """Return after how many steps periodic stages come, where the run's settings say so."""
    frequencies = {
        stages.TESTING: read_config_number(config, "test_freq", "eval_interval"),
        stages.SAVE_CHECKPOINT: read_config_number(config, "save_freq", "save_interval"),
    }
    return {stage: value for stage, value in frequencies.items() if value and value > 0}


def sum_window(
    run: RunFacts,
    steps: Sequence[Step],
    baseline: Baseline | None,
    attempt_starts: Mapping[int, int] | None = None,
) -> Window:
    """Sum a range of steps with all that is known of its periodic costs."""
    return summarise_window(steps, attempt_starts, periods_of(run.config), known_cycles(baseline))


def make_view(
    run: RunFacts,
    looks: Sequence[Look],
    baseline: Baseline | None,
    limits: Limits,
    attempt_starts: Mapping[int, int] | None = None,
    window: Window | None = None,
) -> View:
    """Sum a range of steps into what rules look at.

    Args:
        run: What the run says about itself.
        looks: The steps, or those of a long range that are looked into.
        baseline: What is usual.
        limits: What to decide by.
        attempt_starts: First step of each attempt.
        window: The range summed beforehand, where `looks` are but some of its steps.
    """
    if window is None:
        window = sum_window(run, [look.facts.step for look in looks], baseline, attempt_starts)
    kept = {(step.attempt, step.step) for step in window.judged}
    judged = [look for look in looks if (look.facts.step.attempt, look.facts.step.step) in kept]
    insides = [look.inside for look in judged if look.inside is not None]
    sources: list[InnerSource] = [look.source for look in judged if look.source is not None]
    mode = run.mode or infer_mode({name for look in judged for name in look.facts.scalars})
    return View(
        run=run,
        limits=limits,
        window=window,
        looks=tuple(judged),
        baseline=baseline,
        mode=mode,
        inside=combine(insides) if insides else None,
        inside_source=sources[-1] if sources else None,
        truncated_ratio=mean_known([look.truncated_ratio for look in judged]),
        is_moe=is_mixture_of_experts(run.model_config),
        mfu_actor=mean_known([usable_mfu(step.mfu_actor) for step in window.judged]),
        mfu_actor_stage=mean_known(
            [_mfu_of_stage(step, separate=has_separate_pools(mode)) for step in window.judged]
        ),
        mfu_infer=mean_known([usable_mfu(step.mfu_infer) for step in window.judged]),
        mfu_step=mean_known([usable_mfu(step.mfu_step) for step in window.judged]),
        gpu_count=_gpu_count(run, window.judged),
    )


def _mfu_of_stage(step: Step, *, separate: bool) -> float | None:
    """MFU over the update stage: the step's FLOPs and GPUs over the stage's seconds.

    Not computed for separate pools: there the trainer holds only some of the GPUs.
    """
    mfu = None if separate else usable_mfu(step.mfu_step)
    update = None if mfu is None else step.stage(stages.UPDATE_ACTOR)
    if mfu is None or update is None or not update.inclusive_s or not step.duration_s:
        return None
    return usable_mfu(mfu * step.duration_s / update.inclusive_s)


def _gpu_count(run: RunFacts, judged: Sequence[Step]) -> int | None:
    if run.gpu_count is not None:
        return run.gpu_count
    counts = [step.gpu_count for step in judged if step.gpu_count is not None]
    return statistics.mode(counts) if counts else None
