"""Environments of their own, with interpreters of several versions, for what people install."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

# What uv and pip say when there is no index to ask, or when it is lost on the way.
_NO_INDEX = ("dns error", "Failed to fetch", "Could not connect", "error sending request",
             "Network is unreachable", "No matching distribution found", "timed out",
             "Connection reset", "Temporary failure in name resolution")  # fmt: skip


def find_interpreter(version: str) -> str:
    """Return an interpreter of a version such as `3.12`; skips the test where there is none."""
    if sys.version.startswith(version + "."):
        return sys.executable
    for path in _list_candidates(version):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.startswith(f"Python {version}."):
            return path
    pytest.skip(f"no Python {version} on this machine")


def _list_candidates(version: str) -> Iterator[str]:
    found = shutil.which(f"python{version}")
    if found is not None:
        yield found
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python")):
        yield str(path)


class FreshEnvironment:
    """An environment with nothing in it but what is installed here.

    Args:
        directory: Where it is made.
        version: Of the interpreter, such as `3.12`.
    """

    def __init__(self, directory: Path, version: str) -> None:
        self.directory = directory
        _run_uv(
            "venv", "--quiet", "--no-project", "--python", find_interpreter(version), str(directory)
        )
        self.python = directory / "bin" / "python"

    def install(self, *words: str) -> None:
        """Install as `pip install` does; skips the test where no index is reached."""
        _run_uv("pip", "install", "--quiet", "--python", str(self.python), *words)

    def list_packages(self) -> set[str]:
        """Return the names of what is installed."""
        done = _run_uv("pip", "freeze", "--quiet", "--python", str(self.python))
        lines = done.stdout.splitlines()
        return {line.partition("==")[0].partition(" @")[0].lower() for line in lines if line}

    def run(
        self, *words: str, cwd: Path, timeout_s: float = 120.0
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of the environment with nothing of this process's."""
        command = [str(self.directory / "bin" / words[0]), *words[1:]]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            cwd=cwd,
            env=clean_environment(cwd),
        )


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without settings of Python's or of ours."""
    path = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8"}


def skip_without_index(output: str) -> None:
    """Skip the test when an installer's complaint is that there is no index."""
    for words in _NO_INDEX:
        if words in output:
            pytest.skip(f"no package index is reached: {words}")


def _run_uv(*words: str) -> "subprocess.CompletedProcess[str]":
    command = (Path(sys.executable).with_name("uv"), *words)
    done = _call(command)
    if done.returncode != 0:
        skip_without_index(done.stderr)
        raise AssertionError(done.stderr)
    return done


def _call(command: Sequence[str | Path]) -> "subprocess.CompletedProcess[str]":
    # Settings of the index and the cache hold; those of the environment around it do not.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("VIRTUAL", "PYTHON"))
    }
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=kept
    )
