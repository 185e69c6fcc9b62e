"""What rules look at: a window of steps, summed, beside everything known about its inside."""

import statistics
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from longpole.conventions import metrics, stages
from longpole_server.analysis.architectures import is_mixture_of_experts
from longpole_server.analysis.data_parallel import RankBalance, measure_rank_balance
from longpole_server.analysis.modes import has_separate_pools, infer_mode
from longpole_server.analysis.step_metrics import read_config_number
from longpole_server.analysis.step_table import Column, StepTable
from longpole_server.analysis.window import Window, summarise_window
from longpole_server.diagnosis.baseline import Baseline, known_cycles, mean_known
from longpole_server.diagnosis.engines import Engines, combine_engines
from longpole_server.diagnosis.framework_keys import normalise_system
from longpole_server.diagnosis.inside_gen import InnerSource, InsideGen, combine, is_usable
from longpole_server.diagnosis.laid_samples import LaidSamples, lay_samples
from longpole_server.diagnosis.look import Look
from longpole_server.diagnosis.object_store import ObjectStoreUse, measure_object_stores
from longpole_server.diagnosis.thresholds import Limits
from longpole_server.model.facts import GpuWindow, RunFacts, StepFacts, SyncPhaseFacts
from longpole_server.model.step import Step

# The inside of gen is looked at in as many steps, evenly over the window: more change no median.
# Of steps with many samples fewer do, but never less than make a median robust.
_MAX_LOOKS = 200
_LEAST_LOOKS = 3
_MAX_SAMPLES = 24_000
_MAX_GPU_ROWS = 8_000
_SOURCES: tuple[InnerSource, ...] = ("trajectories", "agent_loop", "engines")
_VERL_PREFIX = "timing_s/"
# The critic's MFU as verl has logged it, the newest name first.
CRITIC_MFU = ("perf/mfu/critic", "mfu/critic")
_BALANCE = ("global_seqlen/mean", "global_seqlen/balanced_max", "global_seqlen/max")


class View:
    """A window as rules see it. None is not known; what takes time is found when asked for.

    Attributes:
        run: What the run says about itself.
        limits: What rules decide by.
        window: The judged steps, summed.
        looks: The judged steps, with what is known about their inside.
        baseline: What is usual for the run.
    """

    def __init__(
        self,
        run: RunFacts,
        limits: Limits,
        window: Window,
        looks: tuple[Look, ...],
        baseline: Baseline | None,
    ) -> None:
        self.run = run
        self.limits = limits
        self.window = window
        self.looks = looks
        self.baseline = baseline

    @cached_property
    def facts(self) -> tuple[StepFacts, ...]:
        """The judged steps."""
        return tuple(look.facts for look in self.looks)

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of everything that was logged in the window."""
        return frozenset[str]().union(*(facts.scalars for facts in self.facts))

    @cached_property
    def mode(self) -> str | None:
        """The mode as declared, else inferred from what is logged or from the GPUs' roles."""
        return self.run.mode or infer_mode(self.names) or self._mode_of_roles

    @cached_property
    def system(self) -> str | None:
        """The framework as the table of keys spells it; None when it is not one of those."""
        if self.run.system:
            return normalise_system(self.run.system)
        return "verl" if any(name.startswith(_VERL_PREFIX) for name in self.names) else None

    @property
    def separate_pools(self) -> bool:
        """Whether trainer and rollout hold GPUs of their own."""
        return has_separate_pools(self.mode)

    @property
    def step_s(self) -> float:
        """Mean seconds of a step; 0 without judged steps."""
        return self.window.step_s or 0.0

    @cached_property
    def ledger_source(self) -> str:
        """Who measured the stages: `spans`, `scalars`, or `spans, scalars`."""
        sources = {stage.source for look in self.looks for stage in look.facts.step.stages}
        return ", ".join(f"{source}s" for source in sorted(sources, reverse=True))

    @cached_property
    def inside_source(self) -> InnerSource | None:
        """Who tells about the inside of gen: the most detailed one of any step."""
        known = {look.source for look in self.sampled}
        return next((source for source in _SOURCES if source in known), None)

    @property
    def inner_source(self) -> str:
        """The same as evidence names it, empty when nobody tells."""
        return self.inside_source or ""

    @cached_property
    def inside(self) -> InsideGen | None:
        """What happened inside gen, None when nobody tells."""
        source = self.inside_source
        found = [
            look.inside
            for look in self.sampled
            if look.source == source and look.inside is not None
        ]
        return combine(found) if found else None

    @cached_property
    def engines(self) -> Engines | None:
        """What the engines report over gen, None when they do not."""
        known = [look.engines for look in self.sampled if look.engines is not None]
        return combine_engines(known)

    @cached_property
    def laid_samples(self) -> LaidSamples | None:
        """Samples laid beside the steps that they ran in, None when that is not known."""
        return lay_samples(self.facts)

    @cached_property
    def truncated_ratio(self) -> float | None:
        """Part of the training samples that end at the known cap."""
        return mean_known([look.truncated_ratio for look in self.sampled])

    @cached_property
    def is_moe(self) -> bool | None:
        """Whether the model is a mixture of experts; None when nobody said."""
        return is_mixture_of_experts(self.run.model_config)

    @cached_property
    def mfu_actor(self) -> float | None:
        """As the trainer reports it, for its training passes alone."""
        return _mean_usable(self.window.judged.column("mfu_actor"))

    @cached_property
    def mfu_actor_stage(self) -> float | None:
        """Computed over the whole update stage."""
        if self.separate_pools:
            # There the trainer holds only some of the GPUs.
            return None
        return _mean_usable(_mfu_of_stage(self.window.judged))

    @cached_property
    def mfu_infer(self) -> float | None:
        """As the trainer reports it, for log probabilities."""
        return _mean_usable(self.window.judged.column("mfu_infer"))

    @cached_property
    def mfu_step(self) -> float | None:
        """Computed over the whole step and all GPUs."""
        return _mean_usable(self.window.judged.column("mfu_step"))

    @cached_property
    def gpu_count(self) -> int | None:
        """All GPUs of the run, as declared, else as tokens and throughput imply."""
        if self.run.gpu_count is not None:
            return self.run.gpu_count
        counts = self.window.judged.known("gpu_count")
        return int(statistics.mode(counts)) if counts else None

    @cached_property
    def rank_balance(self) -> RankBalance | None:
        """How evenly the tokens of an update are spread over its ranks, None when nobody says."""
        means = {name: value for name in _BALANCE if (value := self.scalar(name)) is not None}
        return measure_rank_balance(means)

    @cached_property
    def sync_phases(self) -> tuple[SyncPhaseFacts, ...]:
        """Phases of the weight syncs, in seconds and bytes a step."""
        reported = [facts.sync_phases for facts in self.facts if facts.sync_phases]
        return _mean_phases(reported)

    @cached_property
    def object_store(self) -> ObjectStoreUse | None:
        """What Ray's object stores did, all nodes together; None when none is reported."""
        return measure_object_stores([facts.object_stores for facts in self.facts])

    @cached_property
    def sources(self) -> frozenset[str]:
        """Layers that reported anything in the window, by their names in `layers.LAYERS`."""
        found = {source for look in self.sampled if (source := look.source) is not None}
        if any(facts.engine_windows for facts in self.facts):
            found.add("engines")
        if any(facts.gpu_windows or facts.gpus for facts in self.facts):
            found.add("gpus")
        if any(facts.sync_phases for facts in self.facts):
            found.add("sync_phases")
        if self.object_store is not None:
            found.add("ray_object_store")
        if self.mfu_actor is not None or self.mfu_actor_stage is not None:
            found.add("mfu")
        if self.mfu_infer is not None:
            found.add("mfu_infer")
        found |= {name for name, is_told in self._told_of_run if is_told}
        return frozenset(found)

    @property
    def _told_of_run(self) -> tuple[tuple[str, bool], ...]:
        return (
            ("spans", "spans" in self.ledger_source),
            ("critic_mfu", any(self.scalar(name) for name in CRITIC_MFU)),
            ("preemptions", self._tells_preemptions),
            ("model", bool(self.run.model_config)),
            ("rank_tokens", self.rank_balance is not None),
            ("response_cap", self.truncated_ratio is not None),
            ("buffer", self.reports("buffer_size") and self.reports("buffer_capacity")),
            ("pauses", self.reports("rollout_paused_ratio")),
            ("baseline", self.baseline is not None),
        )

    @property
    def _tells_preemptions(self) -> bool:
        inside, engines = self.inside, self.engines
        by_samples = inside is not None and inside.recomputed_ratio is not None
        return by_samples or (engines is not None and engines.preemptions is not None)

    def seconds(self, *names: str) -> float:
        """Return seconds a step of the named stages together."""
        return sum(self.window.stage_s.get(name, 0.0) for name in names)

    def share(self, *names: str) -> float:
        """Return the part of the step that the named stages take together."""
        return sum(self.window.shares.get(name, 0.0) for name in names)

    @property
    def wait_share(self) -> float:
        """The trainer's exposed wait as a part of the step: with separate pools its gen is one."""
        names = (stages.TRAINER_WAIT, stages.GEN) if self.separate_pools else (stages.TRAINER_WAIT,)
        return self.share(*names)

    @property
    def wait_s(self) -> float:
        """The same in seconds a step."""
        return self.wait_share * self.step_s

    def scalar(self, name: str) -> float | None:
        """Return the mean of a logged scalar over the judged steps."""
        if name not in self.names:
            return None
        return mean_known(self.series_of_scalar(name))

    def series_of_scalar(self, name: str) -> list[float | None]:
        """Return a logged scalar of every judged step, None where it is missing or no number."""
        values = [facts.scalars.get(name) for facts in self.facts]
        return [value if is_usable(value) else None for value in values]

    def metric(self, name: str) -> float | None:
        """Return the mean of a canonical metric over the judged steps."""
        return mean_known(self.series(name)) if self.reports(name) else None

    def reports(self, name: str) -> bool:
        """Tell whether a canonical metric was logged at all."""
        return name in self.names or not self.names.isdisjoint(metrics.METRICS[name].aliases)

    def series(self, name: str) -> list[float | None]:
        """Return a canonical metric of every judged step, None where it is not reported."""
        if not self.reports(name):
            return [None] * len(self.looks)
        values = [metrics.read_metric(name, facts.scalars) for facts in self.facts]
        return [value if is_usable(value) else None for value in values]

    def gpu_windows(self, *names: str) -> list[GpuWindow]:
        """Return what GPUs did during the named stages."""
        return [
            window for facts in self.facts for window in facts.gpu_windows if window.stage in names
        ]

    @cached_property
    def _mode_of_roles(self) -> str | None:
        """GPUs that only train beside GPUs that only generate prove separate pools."""
        roles = {window.role for facts in self.facts for window in facts.gpu_windows}
        roles |= {gpu.role for facts in self.facts for gpu in facts.gpus}
        return "separate_async" if {"trainer", "rollout"} <= roles else None

    @cached_property
    def sampled(self) -> tuple[Look, ...]:
        """The looks whose inside is measured: evenly over the window, the newest among them.

        Steps with samples or engines where there are any; so few that their samples can be read.
        """
        rich = [look for look in self.looks if look.facts.trajectories or look.facts.engine_windows]
        chosen = rich if len(rich) >= min(_LEAST_LOOKS, len(self.looks)) else list(self.looks)
        largest = max((_num_samples(look) for look in chosen), default=0)
        most = _MAX_LOOKS
        if largest:
            most = max(_LEAST_LOOKS, min(_MAX_LOOKS, _MAX_SAMPLES // largest))
        return tuple(_spread(chosen, most))

    @cached_property
    def gpu_facts(self) -> tuple[StepFacts, ...]:
        """The newest steps that tell of single GPUs, in order; so few that they can be read."""
        told = [facts for facts in self.facts if facts.gpus]
        if not told:
            return ()
        most = max(_LEAST_LOOKS, _MAX_GPU_ROWS // len(told[-1].gpus))
        return tuple(told[-most:])


def _num_samples(look: Look) -> int:
    trajectories = look.facts.trajectories
    return len(trajectories.durations_s) if trajectories is not None else 0


def _spread(looks: Sequence[Look], most: int) -> Sequence[Look]:
    """Return at most so many, evenly spaced, the last among them."""
    count = len(looks)
    if count <= most:
        return looks
    return [looks[count - 1 - index * count // most] for index in reversed(range(most))]


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
    kept = set(zip(window.judged.attempts.tolist(), window.judged.numbers.tolist(), strict=True))
    judged = [look for look in looks if (look.facts.step.attempt, look.facts.step.step) in kept]
    return View(run, limits, window, tuple(judged), baseline)


def _mfu_of_stage(steps: StepTable) -> Column:
    """MFU over the update stage: the step's FLOPs and GPUs over the stage's seconds."""
    mfu = steps.column("mfu_step")
    update_s = steps.columns.inclusive_s.get(stages.UPDATE_ACTOR)
    if update_s is None:
        return np.full(len(steps), np.nan)
    usable = (mfu > 0.0) & (mfu <= 1.0) & (update_s > 0) & steps.has_duration
    return np.divide(
        mfu * steps.column("duration_s"), update_s, out=np.full(len(steps), np.nan), where=usable
    )


def _mean_usable(mfu: Column) -> float | None:
    known: list[float] = mfu[(mfu > 0.0) & (mfu <= 1.0)].tolist()
    return mean_known(known)


def _mean_phases(reported: Sequence[Sequence[SyncPhaseFacts]]) -> tuple[SyncPhaseFacts, ...]:
    by_phase: dict[str, list[SyncPhaseFacts]] = {}
    for phases in reported:
        for phase in phases:
            by_phase.setdefault(phase.phase, []).append(phase)
    return tuple(
        SyncPhaseFacts(
            name,
            sum(phase.seconds for phase in phases) / len(reported),
            next((phase.method for phase in phases if phase.method is not None), None),
            _mean_bytes(phases),
        )
        for name, phases in by_phase.items()
    )


def _mean_bytes(phases: Sequence[SyncPhaseFacts]) -> int | None:
    known = [p.transferred_bytes for p in phases if p.transferred_bytes is not None]
    return round(sum(known) / len(known)) if known else None
