"""The value files that come with the chart: one for each way to run it."""

from typing import Any, cast

import yaml

from support.helm_child import CHART

Values = dict[str, Any]

MODES: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((CHART / "ci").glob("*.yaml"))
}
WITH_SERVER = [name for name, values in MODES.items() if values.get("server", {}).get("enabled", 1)]


def merge(*parts: Values) -> Values:
    """Return values of which later ones win, key by key."""
    merged: Values = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], cast("Values", value)) if both else value
    return merged
