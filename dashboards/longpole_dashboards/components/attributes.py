"""The seam to attributes that Dash has no argument for."""

from typing import Any


def attributes(**values: object) -> dict[str, Any]:
    """Return `data-` and `aria-` attributes, written here with underscores, for a component."""
    return {
        name.replace("_", "-"): "" if value is None else str(value)
        for name, value in values.items()
    }
