"""Which part of what was generated was thrown away because it was too old, and who says so."""

from itertools import pairwise

from longpole_server.diagnosis.view import View

# verl's counters since the start of the training; they fall back when it is resumed.
_DROPPED = "fully_async/count/dropped_stale_samples"
_GENERATED = "fully_async/count/total_generated_samples"


def measure_stale_drops(view: View) -> tuple[float, str] | None:
    """Return the dropped part and its source: as logged, else by counters, else by samples."""
    logged = view.metric("stale_drop_ratio")
    if logged is not None:
        return logged, "scalars"
    counted = _count(view)
    if counted is not None:
        return counted, "scalars"
    told = _read_samples(view)
    return None if told is None else (told, "trajectories")


def _count(view: View) -> float | None:
    totals = [
        (dropped, generated)
        for dropped, generated in zip(
            view.series_of_scalar(_DROPPED), view.series_of_scalar(_GENERATED), strict=True
        )
        if dropped is not None and generated is not None
    ]
    more = [
        (after[0] - before[0], after[1] - before[1])
        for before, after in pairwise(totals)
        if after[0] >= before[0] and after[1] > before[1]
    ]
    generated = sum(count for _, count in more)
    return sum(count for count, _ in more) / generated if generated else None


def _read_samples(view: View) -> float | None:
    """Trainers that never say which samples they dropped look the same as those that drop none."""
    num_dropped, num_told = 0, 0
    for look in view.sampled:
        samples = look.facts.trajectories
        if samples is not None:
            num_dropped += samples.statuses.count("dropped_stale")
            num_told += len(samples.statuses) - samples.statuses.count(None)
    return num_dropped / num_told if num_dropped else None
