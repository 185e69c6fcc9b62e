"""Dictionaries as Python or JSON print them, read without evaluating anything.

Values may be numbers, NumPy's and PyTorch's ways to print them, texts, lists and dictionaries;
what is no number is skipped. A dictionary may end in the middle, and people leave pairs out: `...`.
"""

import math
import re
from dataclasses import dataclass, field

# Between two pairs; some may have been left out there.
_BLANKS = re.compile(r"(?:[\s,]|\.{3,}|…)*")
_BLANK = re.compile(r"\s*")
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.S)
_TEXT_START = re.compile(r"['\"]")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+(?:_\d+)*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)(?![\w.])", re.I
)
_CALL = re.compile(r"(?:np\.|numpy\.|torch\.)?[A-Za-z]\w*\(")
_WORD = re.compile(r"[A-Za-z_][\w.]*")
_PARTIAL_NUMBER = re.compile(r"[+-]?[\d.eE_+-]*\Z")
_END = re.compile(r"\s*(?=[,}])|\s*\Z")
_OPENING, _CLOSING = "([{", ")]}"
_MAX_DEPTH = 8


@dataclass(slots=True)
class Dictionary:
    """What could be read.

    Attributes:
        numbers: By name; names of nested dictionaries are joined with `/`.
        end: Where the text goes on behind it, None when it is not complete.
        is_valid: So far it can be the beginning of a dictionary.
    """

    numbers: dict[str, float] = field(default_factory=dict[str, float])
    end: int | None = None
    is_valid: bool = True


class _Incomplete(Exception):  # noqa: N818 - no error: the text ends
    pass


class _Invalid(Exception):  # noqa: N818 - no error: it is no dictionary
    pass


def read_dictionary(text: str, start: int = 0, *, text_numbers: bool = False) -> Dictionary:
    """Read the dictionary whose `{` is at `start`.

    Args:
        text: May end in the middle of it.
        start: Index of its opening brace.
        text_numbers: Numbers are printed as texts.
    """
    found = Dictionary()
    try:
        found.end = _Scanner(text, found.numbers, text_numbers).read(start, "", 0)
    except _Incomplete:
        pass
    except _Invalid:
        found.is_valid = False
    return found


def read_number(text: str) -> float | None:
    """Return the number that a text is, None when it is none."""
    try:
        return float(text)
    except ValueError:
        return None


class _Scanner:
    def __init__(self, text: str, numbers: dict[str, float], text_numbers: bool) -> None:
        self._text = text
        self._numbers = numbers
        self._text_numbers = text_numbers

    def read(self, at: int, prefix: str, depth: int) -> int:
        """Read one dictionary and return the index behind it."""
        if self._peek(at) != "{" or depth > _MAX_DEPTH:
            raise _Invalid
        at += 1
        while True:
            at = self._skip(_BLANKS, at)
            if self._peek(at) == "}":
                return at + 1
            key, at = self._read_key(at)
            at = self._skip(_BLANK, at)
            if self._peek(at) != ":":
                raise _Invalid
            at = self._read_value(self._skip(_BLANK, at + 1), f"{prefix}{key}", depth)
            end = _END.match(self._text, at)
            if end is None:
                raise _Invalid
            at = end.end()

    def _read_key(self, at: int) -> tuple[str, int]:
        if match := _TEXT.match(self._text, at):
            return match[1] if match[1] is not None else match[2], match.end()
        if _TEXT_START.match(self._text, at):
            raise _Incomplete
        if match := _NUMBER.match(self._text, at):
            return match[0], match.end()
        raise _Invalid

    def _read_value(self, at: int, name: str, depth: int) -> int:
        first = self._peek(at)
        if first == "{":
            return self.read(at, f"{name}/", depth + 1)
        if first in "([":
            return self._skip_brackets(at)
        if first in "'\"":
            return self._read_text(at, name)
        if match := _NUMBER.match(self._text, at):
            if match.end() == len(self._text):
                # More digits may follow.
                raise _Incomplete
            self._numbers[name] = float(match[0])
            return match.end()
        if match := _CALL.match(self._text, at):
            return self._read_call(match.end(), name)
        return self._skip_word(at)

    def _read_text(self, at: int, name: str) -> int:
        match = _TEXT.match(self._text, at)
        if match is None:
            raise _Incomplete
        content = match[1] if match[1] is not None else match[2]
        number = read_number(content) if self._text_numbers else None
        if number is not None:
            self._numbers[name] = number
        return self._skip_further_texts(match.end())

    def _skip_word(self, at: int) -> int:
        """Skip `None`, `true` and the like."""
        if _PARTIAL_NUMBER.match(self._text, at):
            raise _Incomplete
        match = _WORD.match(self._text, at)
        if match is None:
            raise _Invalid
        if match.end() == len(self._text):
            raise _Incomplete
        return match.end()

    def _read_call(self, at: int, name: str) -> int:
        """Read `np.float64(0.5)` and `tensor(0.5, device='cuda:0')`; skip other calls."""
        end = self._skip_brackets(at - 1)
        at = self._skip(_BLANKS, at)
        if match := _NUMBER.match(self._text, at):
            self._numbers[name] = float(match[0])
        return end

    def _skip_further_texts(self, at: int) -> int:
        """Python's pretty printer cuts long texts into adjacent ones."""
        while True:
            blank = self._skip(_BLANK, at)
            match = _TEXT.match(self._text, blank)
            if match is None:
                return at
            at = match.end()

    def _skip_brackets(self, at: int) -> int:
        open_: list[str] = []
        while True:
            char = self._peek(at)
            if char in _OPENING:
                open_.append(_CLOSING[_OPENING.index(char)])
            elif char in _CLOSING:
                if open_.pop() != char:
                    raise _Invalid
                if not open_:
                    return at + 1
            elif char in "'\"":
                match = _TEXT.match(self._text, at)
                if match is None:
                    raise _Incomplete
                at = match.end()
                continue
            at += 1

    def _skip(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        return at if match is None else match.end()

    def _peek(self, at: int) -> str:
        if at >= len(self._text):
            raise _Incomplete
        return self._text[at]


def split_finite(numbers: dict[str, float]) -> tuple[dict[str, float], list[str]]:
    """Return the finite numbers, and the names of the others."""
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return finite, [name for name in numbers if name not in finite]
