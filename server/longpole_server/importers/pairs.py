"""The grammar of verl's step lines: `key:value` pairs between ` - `."""

import re

# Also without a blank on one side: the end of a terminal's row may have lost it.
SEPARATOR = re.compile(r"\s+-\s+|\s+-(?=[A-Za-z_])|-\s+(?=[A-Za-z_])")

_NUMBER = r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)"
_VALUE = re.compile(rf"^(?:np\.\w+\(({_NUMBER})\)|tensor\(({_NUMBER})[^)]*\)|({_NUMBER}))$", re.I)
_TENSOR = ":tensor("
_NO_NUMBER = re.compile(r"^\S.*:(?:True|False|None|np\.(?:True_|False_)|\[.*\]|\(.*\)|'.*')$")


def parse_value(text: str) -> float | None:
    """Return the number that a value prints as, or None when it is no number."""
    match = _VALUE.match(text.strip())
    if match is None:
        return None
    return float(next(group for group in match.groups() if group is not None))


def parse_pair(segment: str) -> tuple[str, float] | None:
    """Split `key:value`; None when it is not one or the value is no number.

    Keys may hold colons, and a tensor prints one in its device: `tensor(0.5, device='cuda:0')`.
    """
    if _TENSOR in segment:
        key, _, text = segment.strip().partition(_TENSOR)
        value = parse_value(_TENSOR[1:] + text)
    else:
        key, _, text = segment.strip().rpartition(":")
        value = parse_value(text)
    return None if value is None or not key else (key, value)


def is_pair(segment: str) -> bool:
    """Return whether a segment is a whole pair, of a number or of something else."""
    return parse_pair(segment) is not None or _NO_NUMBER.match(segment.strip()) is not None
