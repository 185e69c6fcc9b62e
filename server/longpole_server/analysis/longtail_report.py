"""All about the long tail of one step, as the API and the step page show it."""

from collections.abc import Mapping

import numpy as np

from longpole.conventions import stages
from longpole_server.analysis.decode_bandwidth import DecodeBandwidth, measure_decode_bandwidth
from longpole_server.analysis.longtail import (
    LongTail,
    ReplicaStop,
    describe_spread,
    measure_long_tail,
    stop_replicas,
)
from longpole_server.analysis.longtail_samples import clip_to_gen
from longpole_server.analysis.longtail_waste import (
    RolloutGpus,
    Waste,
    WasteShare,
    break_down_waste,
    count_rollout_gpus,
)
from longpole_server.analysis.modes import has_separate_pools
from longpole_server.analysis.replicas import ReplicaLoad, list_replica_loads
from longpole_server.model.facts import RunFacts, StepFacts, TrajectoryFacts
from longpole_server.model.long_tail import ReplicaTail, StepTail, TailShare
from longpole_server.model.step import StageTime, Step

NO_SAMPLES = "no training sample of this step is reported"
NONE_IN_GEN = "no training sample ran during gen"
# Groups that are named; there may be thousands.
_MAX_GROUPS = 10
# Points of the curve of running samples.
MAX_CURVE_POINTS = 400


def describe_tail(
    run: RunFacts, facts: StepFacts, mode: str | None
) -> tuple[StepTail | None, str | None]:
    """Return the long tail of a step, or None and why it is not known.

    Args:
        run: What the run says about itself.
        facts: The step with its training samples.
        mode: Of the run, as declared or inferred.
    """
    samples = facts.trajectories
    if samples is None or not len(samples.start_ns):
        return None, NO_SAMPLES
    gen = find_gen(facts.step, mode)
    windows = gen.windows if gen is not None else None
    tail, waste = measure_long_tail(samples, windows), break_down_waste(samples, windows)
    if tail is None or waste is None:
        return None, NONE_IN_GEN
    gpus = count_rollout_gpus(run, facts, mode)
    bandwidth = measure_decode_bandwidth(run, samples, gpus.count, gen)
    stops = stop_replicas(samples, windows)
    return _assemble(samples, tail, waste, gpus, bandwidth, stops), None


def find_gen(step: Step, mode: str | None) -> StageTime | None:
    """Return the stage in which the step's samples are made, when it has windows.

    With separate pools there is none: samples are made while the trainer works.
    """
    if has_separate_pools(mode):
        return None
    gen = step.stage(stages.GEN)
    return gen if gen is not None and gen.windows else None


def trace_running(
    samples: TrajectoryFacts, gen: StageTime | None, max_points: int = MAX_CURVE_POINTS
) -> tuple[tuple[float, int], ...]:
    """Return how many samples run over gen: (second of gen, running from then on).

    Args:
        samples: Training samples of a step.
        gen: The stage, with its windows; None takes all of the samples' time.
        max_points: Between so many of its changes, evenly chosen, the curve is left out.
    """
    clipped = clip_to_gen(samples, gen.windows if gen is not None else None)
    if not len(clipped.rows):
        return ()
    starts, ends = np.sort(clipped.starts), np.sort(clipped.ends)
    times = np.unique(np.concatenate(([0.0, clipped.window_s], starts, ends)))
    if len(times) > max_points:
        # Evenly, and the last one.
        times = times[np.linspace(0, len(times) - 1, max_points, dtype=np.intp)]
    running = np.searchsorted(starts, times, side="right") - np.searchsorted(
        ends, times, side="right"
    )
    return tuple((float(second), int(count)) for second, count in zip(times, running, strict=True))


def _assemble(
    samples: TrajectoryFacts,
    tail: LongTail,
    waste: Waste,
    gpus: RolloutGpus,
    bandwidth: DecodeBandwidth,
    stops: tuple[ReplicaStop, ...],
) -> StepTail:
    stop_of = {stop.replica: stop for stop in stops}
    waste_of = {share.id: share for share in waste.by_replica}
    return StepTail(
        num_samples=tail.num_samples,
        gen_s=tail.window_s,
        span_s=tail.span_s,
        most_running=tail.most_running,
        idle_ratio=tail.idle_ratio,
        rollout_gpus=gpus.count,
        waste_gpu_s=None if gpus.count is None else tail.waste_gpu_s(gpus.count),
        reason=gpus.reason,
        unclaimed_ratio=waste.unclaimed_s / waste.seconds if waste.seconds > 0 else 0.0,
        stops=tail.stops,
        by_replica=tuple(
            _replica(load, waste_of, stop_of, gpus.count) for load in list_replica_loads(samples)
        ),
        by_group=tuple(_share(share, gpus.count) for share in waste.by_group[:_MAX_GROUPS]),
        num_groups=len(waste.by_group),
        by_activity=tuple(_share(share, gpus.count) for share in waste.by_activity),
        time=describe_spread(samples.durations_s),
        tokens=describe_spread(samples.output_tokens),
        decode_bandwidth_ratio=bandwidth.ratio,
        decode_bandwidth_reason=bandwidth.reason,
    )


def _share(share: WasteShare, gpu_count: int | None) -> TailShare:
    gpu_s = None if gpu_count is None else share.seconds * gpu_count
    return TailShare(share.id, share.ratio, gpu_s, share.num_samples)


def _replica(
    load: ReplicaLoad,
    waste_of: Mapping[str | None, WasteShare],
    stop_of: Mapping[str, ReplicaStop],
    gpu_count: int | None,
) -> ReplicaTail:
    waste, stop = waste_of.get(load.replica), stop_of.get(load.replica)
    share = None if waste is None else _share(waste, gpu_count)
    return ReplicaTail(
        replica=load.replica,
        num_samples=load.num_samples,
        waste_ratio=None if share is None else share.ratio,
        waste_gpu_s=None if share is None else share.gpu_s,
        mean_tokens=load.mean_tokens,
        seconds_per_token=load.seconds_per_token,
        mean_queue_s=load.mean_queue_s,
        end_s=load.end_s,
        early_s=load.early_s,
        stop_saved_s=() if stop is None else tuple(saved for _, saved in stop.stop_at),
    )
