# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""Patterns that operators write: searched in a time that grows with the text alone."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import re2

# Larger patterns are refused; what a search may take is bounded by it.
_MAX_BYTES = 1 << 20


class PatternError(ValueError):
    """A pattern is none of RE2, or too large."""


class OwnPattern:
    r"""A pattern in the syntax of RE2: no text makes it slow, as texts can with Python's own.

    Args:
        text: The pattern. `\d`, `\w`, `\s` and `\b` know ASCII alone, `\p{L}` is any letter.

    Attributes:
        groupindex: Numbers of groups by their names.

    Raises:
        PatternError: It makes no sense.
    """

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = _MAX_BYTES
        # The engine writes to standard error otherwise.
        options.log_errors = False
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            said = error.args[0] if error.args else b""
            raise PatternError(
                said.decode(errors="replace") if isinstance(said, bytes) else str(said)
            ) from error
        except UnicodeEncodeError as error:
            raise PatternError("it is no text") from error
        self.groupindex: Mapping[str, int] = dict(self._compiled.groupindex)

    def matches_nothing(self) -> bool:
        """Tell whether it finds an empty text in every text."""
        return self._compiled.search("") is not None

    def subn(self, replace: Callable[[Any], str], text: str) -> tuple[str, int]:
        """Return a text with what is found replaced, and how often that was."""
        try:
            return cast("tuple[str, int]", self._compiled.subn(replace, text))
        except UnicodeEncodeError:
            # Half a character, as JSON can write it.
            whole = text.encode(errors="replace").decode()
            return cast("tuple[str, int]", self._compiled.subn(replace, whole))
