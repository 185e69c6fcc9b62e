"""Which part of what was generated was thrown away because it was too old, and who says so."""

from longpole_server.analysis.stale_drops import (
    DROPPED_TOTAL,
    GENERATED_TOTAL,
    StaleDrops,
    count_by_samples,
    count_by_totals,
)
from longpole_server.diagnosis.view import View


def measure_stale_drops(view: View) -> tuple[float, str] | None:
    """Return the dropped part and its source: as logged, else by counters, else by samples."""
    logged = view.metric("stale_drop_ratio")
    if logged is not None:
        return logged, "scalars"
    totals = zip(
        view.series_of_scalar(DROPPED_TOTAL), view.series_of_scalar(GENERATED_TOTAL), strict=True
    )
    counted = count_by_totals([*totals])
    if counted is not None:
        return counted.ratio, "scalars"
    told = _count_samples(view)
    return None if told is None else (told.ratio, "trajectories")


def _count_samples(view: View) -> StaleDrops | None:
    num_dropped, num_told = 0, 0
    for look in view.sampled:
        samples = look.facts.trajectories
        if samples is not None:
            num_dropped += samples.statuses.count("dropped_stale")
            num_told += len(samples.statuses) - samples.statuses.count(None)
    return count_by_samples(num_dropped, num_told, ever_dropped=num_dropped > 0)
