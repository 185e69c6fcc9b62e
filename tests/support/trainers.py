"""Where the environments and programs of real trainers lie."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "trainers" / "programs"


def find_python(name: str) -> Path:
    """Return the interpreter of a trainer's environment, whether it is there or not."""
    trainers = Path(os.environ.get("LONGPOLE_TRAINERS") or ROOT / ".trainers")
    return trainers / name / "bin" / "python"
