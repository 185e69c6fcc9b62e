"""What people and models wrote: dropped at the door, or kept without what is nobody's business."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from longpole.conventions.attributes import TEXT_ATTRIBUTE_KEYS, TEXT_ATTRIBUTE_PREFIXES
from longpole_server.errors import ConfigError
from longpole_server.ingest.normalize.own_patterns import OwnPattern, PatternError

# Longer attribute values are cut in the raw spans; an ellipsis marks the cut.
MAX_TEXT_CHARS = 4096
# Looked at beyond the cut, so that what the cut would halve is found as well.
_MARGIN_CHARS = MAX_TEXT_CHARS
_MAX_RULES = 100
_MAX_FILE_BYTES = 64 << 10
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
# Besides the text of prompts and responses, these quote what was being worked on.
_QUOTING_KEYS = frozenset({"exception.message", "exception.stacktrace"})


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """What is replaced by `[redacted NAME]`.

    Attributes:
        name: Stands in what is stored.
        pattern: What is secret; where it has a group `secret`, that alone is replaced.
        needle: Without this the pattern finds nothing: a text is looked through for it first.
    """

    name: str
    pattern: "re.Pattern[str] | OwnPattern"
    needle: str = ""


_API_KEYS = (
    r"(?:sk|rk)-[\w-]{20,200}",
    r"(?:sk|rk|pk)_(?:live|test)_\w{16,200}",
    r"gh[pousr]_[A-Za-z0-9]{36,255}",
    r"github_pat_\w{22,255}",
    r"glpat-[\w-]{20,100}",
    r"hf_[A-Za-z0-9]{30,100}",
    r"npm_[A-Za-z0-9]{36}",
    r"nvapi-[\w-]{20,200}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,255}",
    r"(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{20,500}",
    r"lp_[0-9a-f]{12}_[\w-]{43}",
)


def _after(first_words: str, word: str) -> str:
    """Return a pattern of `api_key` and its like that begins with one letter: it is found fast."""
    first, rest = word[0], word[1:]
    before = "|".join(
        f"(?<={each}{joint}{first})" for each in first_words.split() for joint in ("", "_", "-")
    )
    return f"[{first}{first.upper()}](?i:(?:{before}){rest})"


_NAMES_OF_SECRETS = "|".join(
    (
        _after("api access secret private", "key"),
        _after("access auth refresh api bearer", "token"),
        _after("client", "secret"),
        r"[pP](?i:assw(?:or)?d|assphrase)",
    )
)
# In the order in which they are applied: the wider ones first. Name, needle, pattern.
_USUAL = (
    (
        "private_key",
        "-----BEGIN ",
        (
            r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
        ),
    ),
    ("jwt", "eyJ", r"\beyJ[\w-]{8,4000}\.eyJ[\w-]{8,4000}\.[\w-]{8,4000}"),
    ("url_login", "@", r"://(?P<secret>[^/@\s:\"'\\]{1,100}:[^/@\s\"'\\]{1,200})@"),
    (
        "authorization",
        "",
        r"(?i)\b(?:bearer|basic)\s{1,4}(?P<secret>[\w.+/~-]{16,2000}={0,2})",
    ),
    (
        "assignment",
        "",
        (
            rf"(?:{_NAMES_OF_SECRETS})[\\\"']{{0,3}}\s{{0,4}}[:=]\s{{0,4}}[\\\"']{{0,3}}"
            r"(?P<secret>[^\s\\\"',;&]{8,200})"
        ),
    ),
    ("api_key", "", rf"(?a)\b(?:{'|'.join(_API_KEYS)})"),
    (
        "email",
        "@",
        r"(?<![\w.%+-])[\w.%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,6}[A-Za-z]{2,24}\b",
    ),
)
USUAL_RULES: Mapping[str, RedactionRule] = MappingProxyType(
    {name: RedactionRule(name, re.compile(pattern), needle) for name, needle, pattern in _USUAL}
)


class FreeText:
    """Decides about text that people and models wrote.

    Not thread-safe: the ingest thread owns it.

    Args:
        keep: Keep it.
        rules: What is replaced in it where it is kept, and in messages of errors.

    Attributes:
        num_redacted: Places that were replaced.
    """

    def __init__(
        self, *, keep: bool = False, rules: Sequence[RedactionRule] = tuple(USUAL_RULES.values())
    ) -> None:
        self._keep = keep
        self._rules = [(rule.needle, rule.pattern, _Replacement(rule)) for rule in rules]
        self.num_redacted = 0

    def keeps(self, key: str) -> bool:
        """Tell whether an attribute is kept."""
        return self._keep or not holds_text(key)

    def fit(self, key: str, text: str) -> str:
        """Return a value as it is stored: cut, and cleaned where it is somebody's text."""
        is_long = len(text) > MAX_TEXT_CHARS
        if quotes(key):
            text = self.clean(text)
        return text[:MAX_TEXT_CHARS] + "…" if is_long else text

    def clean(self, text: str) -> str:
        """Return a text without what the rules find; of a very long one the beginning."""
        is_cut = len(text) > MAX_TEXT_CHARS + _MARGIN_CHARS
        text = text[: MAX_TEXT_CHARS + _MARGIN_CHARS]
        for needle, pattern, replacement in self._rules:
            if needle in text:
                text, found = pattern.subn(replacement, text)
                self.num_redacted += found
        # Half a secret may stand at the end.
        return text[:-_MARGIN_CHARS] if is_cut else text


@lru_cache(maxsize=4096)
def holds_text(key: str) -> bool:
    """Tell whether an attribute is text of a prompt, a response or a tool."""
    return key in TEXT_ATTRIBUTE_KEYS or key.startswith(TEXT_ATTRIBUTE_PREFIXES)


def quotes(key: str) -> bool:
    """Tell whether an attribute is such text, or a message that may quote it."""
    return holds_text(key) or key in _QUOTING_KEYS


def choose_rules(names: str, file: Path | None) -> tuple[RedactionRule, ...]:
    """Return the rules that an operator wants.

    Args:
        names: Of the usual ones, separated by commas; `all`, or `none`.
        file: More, one in a line: its name, a space, a regular expression of RE2. Empty lines and
            those that begin with `#` mean nothing.

    Raises:
        ConfigError: A name is unknown, or the file makes no sense.
    """
    words = [word.strip() for word in names.split(",") if word.strip()]
    if words == ["all"]:
        words = list(USUAL_RULES)
    elif words == ["none"]:
        words = []
    unknown = [word for word in words if word not in USUAL_RULES]
    if unknown:
        raise ConfigError(
            f"--redact knows no rule {unknown[0]!r}",
            hint=f"all, none, or some of {', '.join(USUAL_RULES)}",
        )
    usual = tuple(rule for name, rule in USUAL_RULES.items() if name in words)
    return (*usual, *(_read_rules(file) if file is not None else ()))


def _read_rules(file: Path) -> list[RedactionRule]:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_FILE_BYTES + 1)
        lines = content.decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the redaction rules in {file}: {error}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{file} is larger than {_MAX_FILE_BYTES:,} bytes")
    rules = [
        _read_rule(line.strip(), f"{file}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(rules) > _MAX_RULES:
        raise ConfigError(f"{file} has more than {_MAX_RULES} rules")
    return rules


def _read_rule(line: str, where: str) -> RedactionRule:
    name, _, text = line.partition(" ")
    if _NAME.fullmatch(name) is None or not text.strip():
        raise ConfigError(
            f"{where}: not a rule", hint=r"a name of small letters and a pattern: ticket TICK-\d+"
        )
    try:
        pattern = OwnPattern(text.strip())
    except PatternError as error:
        raise ConfigError(
            f"{where}: not a regular expression: {error}",
            hint="the syntax is RE2's: what may take long (look-around, back references) is none",
        ) from error
    if pattern.matches_nothing():
        raise ConfigError(f"{where}: the pattern matches nothing at all, everywhere")
    return RedactionRule(name, pattern)


class _Replacement:
    def __init__(self, rule: RedactionRule) -> None:
        self._text = f"[redacted {rule.name}]"
        self._group = rule.pattern.groupindex.get("secret")

    def __call__(self, match: Any) -> str:  # noqa: ANN401 - of either engine, which look alike
        if self._group is None or match[self._group] is None:
            return self._text
        begin, end = (place - match.start() for place in match.span(self._group))
        return match[0][:begin] + self._text + match[0][end:]
