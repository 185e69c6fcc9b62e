"""The seam to Plotly's type stubs."""

from typing import Any


def plotted(values: object) -> Any:  # noqa: ANN401 - this is where the stubs end
    """Return values as they are, for an argument of a trace.

    The stubs know sequences of numbers only. Plotly also takes sequences with gaps (None), rows of
    labels as `customdata`, and arrays of small types.
    """
    return values
