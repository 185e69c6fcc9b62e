"""Version, changelog, chart, compose file and tags agree."""

import re
import subprocess
from itertools import pairwise

import pytest

from longpole import __version__
from support.distributions import ROOT

HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")


def ask_git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("this is no clone of the repository")
    return done.stdout.split()


def as_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def test_the_changelog_begins_with_what_comes_next() -> None:
    headings = [(match["version"], match["date"]) for match in HEADING.finditer(CHANGELOG)]
    assert headings[0] == ("Unreleased", None)
    released = headings[1:]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date or "") for _, date in released)
    assert all(as_key(newer) > as_key(older) for (newer, _), (older, _) in pairwise(released))
    assert all(as_key(version) <= as_key(__version__) for version, _ in released)


def test_what_is_tagged_is_in_the_changelog() -> None:
    released = {match["version"] for match in HEADING.finditer(CHANGELOG)}
    tags = [tag for tag in ask_git("tag", "--list", "v*") if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    assert {tag.removeprefix("v") for tag in tags} <= released


def test_a_tag_on_this_commit_names_this_version() -> None:
    tags = ask_git("tag", "--points-at", "HEAD", "--list", "v*")
    assert set(tags) <= {f"v{__version__}"}


@pytest.mark.parametrize(
    "name", ["Dockerfile.agent", "Dockerfile.server", "deploy/compose/compose.yaml"]
)
def test_files_that_name_the_version(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert set(re.findall(r"longpole-(?:agent|server):(\d+\.\d+\.\d+)", text)) == {__version__}
