"""Writes the table of values in the chart's README anew, from the comments in values.yaml.

python helm/describe_values.py
"""

import re
from collections.abc import Iterator
from pathlib import Path

CHART = Path(__file__).parent / "longpole"
_BEGIN, _END = "<!-- begin values -->\n", "<!-- end values -->\n"
_KEY = re.compile(r"(?P<indent> *)(?P<key>[A-Za-z0-9]+):(?: (?P<value>.*))?$")


def list_values(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and description of each value that has a description.

    Args:
        text: Of values.yaml: nested mappings, two spaces deep, a `# --` comment above a value.
    """
    path: list[str] = []
    said: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        words = line.strip()
        if words.startswith("# --"):
            said = [words[4:].strip()]
        elif words.startswith("#") and said:
            said.append(words[1:].strip())
        elif (match := _KEY.match(line)) is not None:
            depth = len(match["indent"]) // 2
            path = [*path[:depth], match["key"]]
            if said:
                value = match["value"] or _read_block(lines[number + 1 :], len(match["indent"]))
                yield ".".join(path), value, " ".join(said)
            said = []


def describe(text: str) -> str:
    """Return the table for values.yaml as Markdown."""
    rows = [
        f"| `{name}` | `{value}` | {said} |".replace('`""`', "")
        for name, value, said in list_values(text)
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows]) + "\n"


def replace_table(page: str, table: str) -> str:
    """Return a page with another table between its marks."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{table}{_END}{after}"


def _read_block(lines: list[str], indent: int) -> str:
    """Return a value that stands below its key, in one line."""
    block: list[str] = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        if line.strip().startswith("#"):
            break
        block.append(line.strip())
    return ", ".join(filter(None, block))


def main() -> None:
    """Write it."""
    page = CHART / "README.md"
    table = describe((CHART / "values.yaml").read_text("utf-8"))
    page.write_text(replace_table(page.read_text("utf-8"), table), "utf-8")


if __name__ == "__main__":
    main()
