"""Reads a Prometheus page: the text formats 0.0.4 and 1.0.0, and OpenMetrics as far as it differs.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

# Names beyond letters and digits come in quotes, in the first place of the braces.
ACCEPT = (
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "\\": "\\", '"': '"'}
_DERIVED = re.compile(r"(?P<family>.+)_(?:total|sum|count|bucket|created)")
_CUMULATIVE = frozenset({"counter", "histogram", "summary"})


@dataclass(frozen=True, slots=True)
class Sample:
    """One series of a page with its value, which may be no number or infinite.

    Attributes:
        name: As it stands there.
        labels: Names and values, in the order of the page.
        kind: What `# TYPE` says of its family: `counter`, `gauge`, ..., "" when it says nothing.
    """

    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    kind: str

    @property
    def is_cumulative(self) -> bool:
        """Whether it counts since the start of its process."""
        return self.kind in _CUMULATIVE


class MalformedLineError(ValueError):
    """A line that is no series."""


def read_page(text: str) -> Iterator[Sample | None]:
    """Yield the samples of a page in order, None for each line that cannot be read."""
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("#"):
            _note_kind(line, kinds)
        elif line:
            try:
                yield _read_sample(line, kinds)
            except ValueError:
                yield None


def _note_kind(line: str, kinds: dict[str, str]) -> None:
    parts = line.split(None, 3)
    if len(parts) == 4 and parts[1] == "TYPE":
        kinds[_unescape(parts[2].strip('"'))] = parts[3].strip().lower()


def _read_sample(line: str, kinds: dict[str, str]) -> Sample:
    match = _NAME.match(line)
    name, position = ("", 0) if match is None else (match[0], match.end())
    while position < len(line) and line[position] in " \t":
        position += 1
    labels: list[tuple[str, str]] = []
    if position < len(line) and line[position] == "{":
        quoted_name, position = _read_labels(line, position + 1, labels)
        name = name or quoted_name
    if not name:
        raise MalformedLineError("a series has a name")
    # Behind the value stand a time and, after a hash, an example: neither is used.
    fields = line[position:].split(None, 1)
    if not fields:
        raise MalformedLineError("a series has a value")
    return Sample(name, tuple(labels), float(fields[0]), _find_kind(name, kinds))


def _read_labels(line: str, position: int, labels: list[tuple[str, str]]) -> tuple[str, int]:
    """Read the inside of braces; return a quoted metric name, and where the braces end."""
    name = ""
    while True:
        while position < len(line) and line[position] in " \t,":
            position += 1
        if position >= len(line):
            raise MalformedLineError("braces do not end")
        if line[position] == "}":
            return name, position + 1
        key, position = _read_key(line, position)
        while position < len(line) and line[position] in " \t":
            position += 1
        if position >= len(line) or line[position] != "=":
            name = key
            continue
        value = _QUOTED.match(line, position + 1)
        if value is None:
            raise MalformedLineError("a label has no value")
        labels.append((key, _unescape(value[1])))
        position = value.end()


def _read_key(line: str, position: int) -> tuple[str, int]:
    quoted = _QUOTED.match(line, position)
    if quoted is not None:
        return _unescape(quoted[1]), quoted.end()
    bare = _NAME.match(line, position)
    if bare is None:
        raise MalformedLineError("a label has no name")
    return bare[0], bare.end()


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[0]), text)


def _find_kind(name: str, kinds: dict[str, str]) -> str:
    kind = kinds.get(name)
    if kind is None and (derived := _DERIVED.fullmatch(name)) is not None:
        kind = kinds.get(derived["family"])
    return kind or ""
