"""What the keys of a verl log tell about the run: trainer generation, mode, number of GPUs."""

import statistics
from collections.abc import Collection, Iterable, Mapping

from longpole_server.analysis.modes import infer_mode

# A derived GPU count must be this close to a whole number to be believed.
_WHOLE_TOLERANCE = 0.02


def infer_verl_mode(keys: Collection[str]) -> str | None:
    """Return `rl.mode` as the metric names betray it, None when there are no timings.

    Trainers of the asynchronous modes write names of their own; without any of these the two
    modes that share GPUs remain, of which `sync` is the usual one.
    """
    if (mode := infer_mode(keys)) is not None:
        return mode
    return "sync" if "timing_s/step" in keys or "timing_s/gen" in keys else None


def derive_gpu_count(scalars: Mapping[str, float]) -> float | None:
    """Return GPUs = tokens / (step seconds x tokens/s/GPU), None when one is missing."""
    tokens = scalars.get("perf/total_num_tokens")
    seconds = scalars.get("perf/time_per_step", scalars.get("timing_s/step"))
    throughput = scalars.get("perf/throughput")
    if not tokens or not seconds or not throughput:
        return None
    return tokens / (seconds * throughput)


def agree_on_gpu_count(derived: Iterable[float]) -> tuple[int | None, int]:
    """Return the whole GPU count most steps agree on, and how many steps contradict it."""
    values = list(derived)
    if not values:
        return None, 0
    count = round(statistics.median(values))
    if count < 1:
        return None, len(values)
    contradicting = sum(abs(value - count) > _WHOLE_TOLERANCE * count for value in values)
    if contradicting * 2 > len(values):
        return None, contradicting
    return count, contradicting
