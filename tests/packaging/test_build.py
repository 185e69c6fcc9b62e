"""Wheel and sdist: the same bytes every time, and nothing in them that does not belong there."""

import hashlib
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from support.distributions import EPOCH, ROOT, build, copy_source

PACKAGES = {"longpole", "longpole_agent", "longpole_sim", "longpole_server", "longpole_dashboards"}
# Asks for `LONGPOLE_AUTOLOG` when an interpreter starts, and does nothing else without it.
START_FILE = "longpole_autolog.pth"


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


def test_the_same_source_gives_the_same_bytes(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    """Elsewhere, with other times of files and another umask."""
    before = os.umask(0o077)
    try:
        copy = copy_source(tmp_path / "copy")
    finally:
        os.umask(before)
    for path in copy.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert digest(build(copy, tmp_path / "wheel", "wheel")) == digest(wheel)
    assert digest(build(copy, tmp_path / "sdist", "sdist")) == digest(sdist)


def test_the_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    assert digest(build(source, tmp_path / "wheel", "wheel")) == digest(wheel)


def test_the_wheel_holds_the_packages_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        times = {entry.date_time[0] for entry in archive.infolist()}
    tops = {name.partition("/")[0] for name in names}
    (info,) = (top for top in tops if top.endswith(".dist-info"))
    assert tops - {info} == {*PACKAGES, START_FILE}
    assert f"{info}/licenses/LICENSE" in names
    assert not [name for name in names if "test" in name or name.endswith((".pyc", ".so"))]
    assert "longpole/py.typed" in names
    assert any(name.startswith("longpole_server/store/migrations/0001") for name in names)
    assert any(name.startswith("longpole_dashboards/assets/") for name in names)
    # Of the epoch that was given, not of the build.
    assert times == {1970 + EPOCH // 31_556_952}
