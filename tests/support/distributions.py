"""Builds the wheel and the sdist as a release does."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Seconds of all times in what is built.
EPOCH = 1_700_000_000
_FOLDERS = ("agent", "server", "dashboards", "deploy", "docs", "helm", "benchmarks")


def build(source: Path, target: Path, kind: str) -> Path:
    """Build a distribution from a source tree and return its file.

    Args:
        source: Where pyproject.toml is.
        target: An empty folder.
        kind: `wheel` or `sdist`.
    """
    command = [
        sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)
    ]  # fmt: skip
    environment = {"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": str(EPOCH)}
    done = subprocess.run(
        command, cwd=source, env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (file,) = target.iterdir()
    return file


def copy_source(target: Path) -> Path:
    """Copy what is built from to another place."""
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in _FOLDERS:
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, target / path.name)
    return target
