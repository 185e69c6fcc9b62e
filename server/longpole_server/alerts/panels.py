"""Which panel of the run page draws a figure."""

from collections.abc import Mapping
from types import MappingProxyType

from longpole_server.alerts.rule import DEFAULT_PANEL, ENGINES_PANEL

_THROUGHPUT, _SHARES, _MFU = "run-throughput", "run-shares", "run-mfu"
_DRAWN: Mapping[str, str] = MappingProxyType(
    {
        "step_duration_s": _THROUGHPUT,
        "throughput_tokens_per_s_per_gpu": _THROUGHPUT,
        "unattributed_s": _SHARES,
        "mfu_actor": _MFU,
        "mfu_infer": _MFU,
        "mfu_step": _MFU,
        "engines/running": ENGINES_PANEL,
    }
)
_STAGES = ("stage_s/", "share/")


def find_panel(figure: str) -> str:
    """Return the element of the run page that draws a figure of a step, by the figure's name."""
    if figure.startswith(_STAGES):
        return _SHARES
    return _DRAWN.get(figure, DEFAULT_PANEL)
