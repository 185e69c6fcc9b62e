"""Where the environments and programs of real trainers lie."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "trainers" / "programs"


def find_python(name: str) -> Path:
    """Return the interpreter of a trainer's environment, whether it is there or not."""
    trainers = Path(os.environ.get("LONGPOLE_TRAINERS") or ROOT / ".trainers")
    return trainers / name / "bin" / "python"


class RunTrainer(Protocol):
    """Runs a program of a trainer's environment to its end; it must succeed."""

    def __call__(
        self, *command: str, environment: Mapping[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command, with the agent's address in its environment."""
        ...
