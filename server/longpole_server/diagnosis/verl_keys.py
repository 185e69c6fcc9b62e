"""Which of verl's configuration keys exist where: a hint at a key that is not there misleads.

Keys that are not listed exist in every version since 0.5. Taken from the generated trainer
configuration of each release.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

_ROLLOUT = "actor_rollout_ref.rollout."

# First release that has the key.
_SINCE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        _ROLLOUT + "enable_prefix_caching": (0, 6, 0),
        _ROLLOUT + "checkpoint_engine.backend": (0, 7, 1),
        _ROLLOUT + "checkpoint_engine.update_weights_bucket_megabytes": (0, 7, 1),
        "algorithm.rollout_correction": (0, 6, 1),
        "algorithm.filter_groups.enable": (0, 9, 0),
        "reward.num_workers": (0, 7, 1),
        "trainer.v1.trainer_mode": (0, 9, 0),
    }
)
# Keys of a trainer of its own, by their beginning, with the mode that runs it.
_MODE_OF_PREFIX = (("async_training.", "fully_async"), ("rollout.", "fully_async"))


def existing_keys(keys: Iterable[str], version: str | None, mode: str | None) -> tuple[str, ...]:
    """Return the keys that exist in a version (None: the newest) and in a mode's trainer."""
    numbers = _parse(version)
    return tuple(
        key
        for key in keys
        if (numbers is None or _SINCE.get(key, ()) <= numbers) and _fits_mode(key, mode)
    )


def _parse(version: str | None) -> tuple[int, ...] | None:
    match = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _fits_mode(key: str, mode: str | None) -> bool:
    return all(mode == needed for prefix, needed in _MODE_OF_PREFIX if key.startswith(prefix))
