"""The documentation: links lead somewhere, commands and blocks are such, made pages are fresh."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from longpole.cli import COMMANDS
from longpole_agent.config import parse_config
from longpole_server.alerts.catalogue import BUILT_IN_RULES
from longpole_server.alerts.reference import write_reference as write_alert_rules
from longpole_server.api.reference import write_reference as write_api
from longpole_server.config import Config, UpConfig, read_config

ROOT = Path(__file__).parents[2]
PAGES = sorted([
    *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md",
    ROOT / "helm" / "longpole" / "README.md",
])  # fmt: skip
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")
RULES = ROOT / "deploy" / "prometheus" / "longpole.rules.yml"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def list_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs both make them."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", one)) for one in found)
    return {word.strip().lower().replace(" ", "-") for word in words}


def list_blocks(page: Path) -> Iterator[tuple[str, str]]:
    for match in BLOCK.finditer(page.read_text("utf-8")):
        yield match[1], match[2]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    dead: list[str] = []
    for link in LINK.findall(BLOCK.sub("", page.read_text("utf-8"))):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        missing = not target.exists()
        if missing or (anchor and target.suffix == ".md" and anchor not in list_anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_what_they_say(page: Path) -> None:
    for language, text in list_blocks(page):
        if language == "json":
            json.loads(text)
        elif language == "yaml":
            assert yaml.safe_load(text)
        elif language == "python":
            compile(text, name(page), "exec")


def list_commands() -> Iterator[Any]:
    """Yield the words after `longpole` of every command line that pages show."""
    for page in PAGES:
        for language, text in list_blocks(page):
            if language not in {"", "bash", "console", "sh"}:
                continue
            joined = re.sub(r"\\\n\s*", "", text)
            for line in joined.splitlines():
                match = re.search(r"(?:^|[=\s]|/)longpole ((?!\s)[^|&#<>]*)", line)
                if match is not None and match[1].split()[0] in COMMANDS:
                    yield pytest.param(match[1], id=f"{page.stem}: {match[1].strip()[:60]}")


def is_known(command: str, words: list[str]) -> bool:
    """Tell whether a program's own options include those of a line; placeholders are left alone."""
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    module = __import__(COMMANDS[command].module, fromlist=["main"])
    source = Path(module.__file__).read_text("utf-8")
    if command in {"server", "up", "backup", "restore", "migrate"}:
        kind: Any = UpConfig if command == "up" else Config
        with pytest.raises(SystemExit) as end:
            read_config(kind, command, ["--help"], {})
        assert end.value.code == 0
        fields = kind.__dataclass_fields__
        known = {"--" + one.replace("_", "-") for one in fields} | {
            "--" + one.replace("_", "-") + "-file" for one in fields
        }
        return flags <= known
    return all(f'"{flag}"' in source or f'"{flag[2:]}"' in source for flag in flags)


@pytest.mark.parametrize("line", list(list_commands()))
def test_commands_are_ones(line: str) -> None:
    command, *words = shlex.split(line, comments=True)
    if command == "agent" and "FILE" not in words:
        parse_config([word for word in words if word != "..."], {})
    else:
        assert is_known(command, words)


@pytest.mark.parametrize(
    ("file", "text"),
    [("api.md", write_api), ("alert-rules.md", write_alert_rules)],
    ids=["api", "alert-rules"],
)
def test_what_is_made_is_up_to_date(file: str, text: Any) -> None:
    assert (ROOT / "docs" / file).read_text("utf-8") == text(), f"make docs/{file} anew"


def test_every_rule_has_its_entry() -> None:
    page = (ROOT / "docs" / "alert-rules.md").read_text("utf-8")
    assert all(f"## `{rule.rule_id}`\n" in page for rule in BUILT_IN_RULES)


def list_alerts() -> "list[Any]":
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_alert_has_its_entry_in_the_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    assert headings == [alert["alert"] for alert in list_alerts()]


def test_every_page_is_in_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    missing = [
        str(page) for page in pages if page.parts[0] != "decisions" and str(page) not in site
    ]
    assert missing == []
