"""Longpole: find what an RL training loop is waiting for."""

from longpole._version import __version__
from longpole.recording import (
    autolog,
    flush,
    init,
    log,
    shutdown,
    stage,
    stats,
    step,
    sync_phase,
    trajectory,
)
from longpole.stats import Stats
from longpole.windows import StageWindow, StepWindow

__all__ = [
    "StageWindow",
    "Stats",
    "StepWindow",
    "__version__",
    "autolog",
    "flush",
    "init",
    "log",
    "shutdown",
    "stage",
    "stats",
    "step",
    "sync_phase",
    "trajectory",
]
