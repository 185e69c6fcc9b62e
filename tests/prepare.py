"""Brings what the tests need beyond Python: Chromium, a C compiler, Node.js, and npm packages.

Run by `make test`. On Debian as root it installs what is missing; elsewhere it names it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Command that proves the package is there -> Debian package that brings it.
NEEDED = {
    "chromium": "chromium",
    "gcc": "gcc",
    "node": "nodejs",
    "npm": "npm",
}
# The compiler is useless without the C library's headers.
HEADERS = {"gcc": "libc6-dev"}
NODE_PACKAGES = Path(__file__).parent / "contract" / "otlp" / "js"


def find_missing() -> list[str]:
    """Return the Debian packages whose command is not on this machine."""
    missing = [package for command, package in NEEDED.items() if shutil.which(command) is None]
    return missing + [HEADERS[package] for package in missing if package in HEADERS]


def install_debian_packages(packages: list[str]) -> None:
    """Install Debian packages, or exit with the command a person has to run."""
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        sys.exit(f"The tests need {', '.join(packages)}; install with: sudo {' '.join(command)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def install_node_packages(folder: Path) -> None:
    """Install the pinned npm packages of `folder` unless they already match the lock file."""
    lock = folder / "package-lock.json"
    stamp = folder / "node_modules" / ".package-lock.json"
    if not lock.exists() or (stamp.exists() and stamp.stat().st_mtime >= lock.stat().st_mtime):
        return
    subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=folder, check=True
    )


def main() -> None:
    """Prepare this machine for the tests."""
    missing = find_missing()
    if missing:
        install_debian_packages(missing)
    install_node_packages(NODE_PACKAGES)


if __name__ == "__main__":
    main()
