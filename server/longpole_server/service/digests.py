"""What the steps of a run add up to, for its line in the list and the head of its page."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from longpole.conventions.attributes import STEP_STAGE
from longpole.conventions.metrics import read_metric
from longpole_server.analysis.modes import infer_mode
from longpole_server.model.gpu import RunGpu
from longpole_server.model.run import Pace
from longpole_server.model.step import Confidence, Step
from longpole_server.read import Reader
from longpole_server.read.run_parts import Extent, RunParts
from longpole_server.service.conversions import find_pools_mode
from longpole_server.service.run_states import Usual

# Closed steps over which figures of a run are medians.
RECENT_STEPS = 20
# Closed steps whose paces a run's line draws.
PACE_STEPS = 40


@dataclass(frozen=True, slots=True)
class RunDigest:
    """Figures of a run, changed only by new steps or newly joined GPUs.

    Attributes:
        step_duration_s, throughput_tokens_per_s_per_gpu, mfu_step: Medians over the last 20
            closed steps.
        staleness_max: Of the last closed step, in the run's basis.
        verdict: The one most of the last 20 closed steps have; the newest of equals.
        mode: As the GPUs' roles or what the last step logged show it; `sync` without a sign of
            another.
        extents: The steps of each attempt, in order; those that a later attempt did again are its.
        gpu_count: GPUs joined to the newest attempt that has any.
        gpu_hosts: Nodes of all joined GPUs.
        paces: Of the last 40 closed steps, in order.
        last_closed_ns: End of the newest closed step.
        usual: Seconds of each stage, `step` for the whole step, over the last 20 closed steps.
    """

    mode: str
    extents: Mapping[int, Extent]
    step_duration_s: float | None
    throughput_tokens_per_s_per_gpu: float | None
    mfu_step: float | None
    staleness_max: float | None
    verdict: str | None
    confidence: Confidence | None
    last_closed_ns: int | None
    usual: Mapping[str, Usual]
    gpu_count: int | None
    gpu_hosts: frozenset[str]
    paces: tuple[Pace, ...] = ()

    @property
    def whole(self) -> Extent | None:
        """The steps of all attempts, None without any."""
        if not self.extents:
            return None
        return Extent(
            min(extent.first for extent in self.extents.values()),
            max(extent.last for extent in self.extents.values()),
            sum(extent.num_steps for extent in self.extents.values()),
        )

    @property
    def first_steps(self) -> dict[int, int]:
        """The first step of each attempt."""
        return {attempt: extent.first for attempt, extent in self.extents.items()}


def read_digests(reader: Reader, run_ids: Sequence[str]) -> dict[str, RunDigest]:
    """Return the figures of some runs: hundreds at most.

    Raises:
        StoreError: The database failed.
    """
    parts = reader.list_run_parts(run_ids, RECENT_STEPS, PACE_STEPS)
    return {run_id: _digest(each) for run_id, each in parts.items()}


def _digest(parts: RunParts) -> RunDigest:
    recent = parts.steps
    verdict, confidence = choose_verdict(recent)
    return RunDigest(
        mode=infer_mode(parts.scalars) or find_pools_mode(parts.gpus) or "sync",
        extents=parts.extents,
        step_duration_s=_median(step.duration_s for step in recent),
        throughput_tokens_per_s_per_gpu=_median(
            step.throughput_tokens_per_s_per_gpu for step in recent
        ),
        mfu_step=_median(step.mfu_step for step in recent),
        staleness_max=read_metric("staleness_max", parts.scalars),
        verdict=verdict,
        confidence=confidence,
        last_closed_ns=max((step.end_ns or 0 for step in recent), default=None),
        usual=measure_usual(recent),
        gpu_count=count_gpus(parts.gpus),
        gpu_hosts=frozenset(gpu.host for gpu in parts.gpus),
        paces=tuple(parts.paces),
    )


def count_gpus(run_gpus: Sequence[RunGpu]) -> int | None:
    """Return how many GPUs the newest attempt that has any holds."""
    newest = max((gpu.attempt for gpu in run_gpus), default=None)
    return len({gpu.gpu_uuid for gpu in run_gpus if gpu.attempt == newest}) or None


def choose_verdict(steps: Sequence[Step]) -> tuple[str | None, Confidence | None]:
    """Return the verdict most of the steps have, with the confidence most of those give it."""
    newest_first = [step for step in reversed(steps) if step.verdict is not None]
    if not newest_first:
        return None, None
    # Among equals `mode` returns what comes first.
    verdict = statistics.mode(step.verdict for step in newest_first)
    confidences: list[Confidence | None] = [
        step.confidence for step in newest_first if step.verdict == verdict
    ]
    return verdict, max(confidences, key=confidences.count)


def measure_usual(steps: Sequence[Step]) -> dict[str, Usual]:
    """Return what each stage, and the whole step, usually takes."""
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for step in steps:
        if step.duration_s is not None:
            seconds[STEP_STAGE].append(step.duration_s)
        for stage in step.stages:
            seconds[stage.stage].append(stage.inclusive_s)
        for outside in step.outside:
            seconds[outside.stage].append(outside.duration_s)
    return {
        stage: Usual(statistics.median(values), max(values)) for stage, values in seconds.items()
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
