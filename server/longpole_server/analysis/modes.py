"""Which mode a run is in, from what it logs, when it does not say so."""

from collections.abc import Iterable

from longpole.conventions import attributes

_MODE_OF_PREFIX = (
    ("fully_async/", "fully_async"),
    ("timing_s/timing_s/param_sync", "fully_async"),
    ("timing_s/generate_async", "one_step_off"),
    ("timing_s/sync_rollout_weights", "one_step_off"),
    ("timing_s/wait_prev_gen", "one_step_off"),
    ("separate_async/", "separate_async"),
    ("timing_s/switch_", "separate_async"),
    ("timing/wait_for_generation_buffer", "separate_async"),
    ("timing/train/exposed_generation", "separate_async"),
    ("time/wait_for_batch", "separate_async"),
    ("time/trainer_waiting_for_data", "separate_async"),
    ("time/trainer_idle_waiting_for_inference", "separate_async"),
    ("queue_wait_time_s", "separate_async"),
)


def infer_mode(names: Iterable[str]) -> str | None:
    """Return the mode that logged names betray, None when they fit several."""
    known = tuple(names)
    for prefix, mode in _MODE_OF_PREFIX:
        if any(name.startswith(prefix) for name in known):
            return mode
    return None


def has_separate_pools(mode: str | None) -> bool:
    """Return whether trainer and rollout hold GPUs of their own in this mode."""
    return mode in attributes.SEPARATE_POOL_MODES
