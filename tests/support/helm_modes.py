"""The value files that come with the chart: one for each way to run it."""

from typing import Any

import yaml

from support.helm_child import CHART

MODES: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((CHART / "ci").glob("*.yaml"))
}
WITH_SERVER = [name for name, values in MODES.items() if values.get("server", {}).get("enabled", 1)]
