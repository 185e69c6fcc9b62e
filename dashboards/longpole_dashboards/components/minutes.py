"""How many of the last minutes charts show, as a choice."""

# pyright: reportMissingTypeStubs=false

from collections.abc import Sequence

from dash.development.base_component import Component

from longpole_dashboards.addresses import Query
from longpole_dashboards.components.panel import choice

# The name that `assets/longpole.js` gives up a chosen time for.
SPAN = "span"


def minutes_choice(control_id: str, options: Sequence[tuple[str, str]], query: Query) -> Component:
    """Return the control, the first of (value, label) options by default.

    While a time is shown that was chosen on a chart, no minutes are: each of them can be chosen.
    """
    is_elsewhere = query.text("time") is not None or query.text("zoom") is not None
    value = "" if is_elsewhere else query.text(SPAN) or options[0][0]
    return choice(control_id, options, value)
