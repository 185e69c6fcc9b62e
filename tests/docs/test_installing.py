"""How to install is said in one way, which is true while no release is out: from a clone."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_INSTALL = re.compile(r"pip install ['\"]?(\S*longpole\b[^\s'\"`]*)")
_CLONE = re.compile(r"/path/to/longpole(\[[a-z]+\])?")


def find_sources() -> dict[str, list[str]]:
    """Return by page or file what people are told to install."""
    files = [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/frameworks/*.md"),
        *ROOT.glob("deploy/**/*.service"),
        *ROOT.glob("helm/longpole/README.md"),
    ]
    found = {str(file.relative_to(ROOT)): _INSTALL.findall(file.read_text()) for file in files}
    return {file: sources for file, sources in found.items() if sources}


def test_every_page_installs_from_a_clone_and_start_says_what_that_is():
    sources = find_sources()
    assert {"README.md", "docs/start.md", "docs/ray.md", "docs/frameworks/trl.md"} <= set(sources)
    assert [
        (file, source)
        for file, told in sources.items()
        for source in told
        if not _CLONE.fullmatch(source)
    ] == []
    assert "`/path/to/longpole` is such a clone" in (ROOT / "docs" / "start.md").read_text()
