"""Thresholds that a run sets for itself, among its settings: `longpole.threshold.<name>`."""

import math
from collections.abc import Mapping

from longpole_server.diagnosis.thresholds import THRESHOLDS, Limits, resolve_limits
from longpole_server.model.step import Note

PREFIX = "longpole.threshold."
_NAMES = frozenset(threshold.name for threshold in THRESHOLDS)


def read_limits(
    config: Mapping[str, str], overrides: Mapping[str, float] | None = None
) -> tuple[Limits, tuple[Note, ...]]:
    """Return what a run is judged by, and a note on each setting that makes no sense.

    Args:
        config: The run's settings.
        overrides: The caller's own, which count before the run's.

    Raises:
        ConfigError: An override of the caller names no threshold.
    """
    values: dict[str, float] = {}
    notes: list[Note] = []
    for key, text in config.items():
        if not key.startswith(PREFIX):
            continue
        name, value = key.removeprefix(PREFIX), _read(text)
        if name in _NAMES and value is not None:
            values[name] = value
        else:
            why = "no number" if name in _NAMES else "no threshold of this name"
            summary = f"The run's setting `{key}` is left out: {why}."
            notes.append(Note("threshold.ignored", "warning", summary, name))
    return resolve_limits({**values, **(overrides or {})}), tuple(notes)


def _read(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
