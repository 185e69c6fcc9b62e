"""How the values of options are written: yes and no, ports, sizes, spans of time, numbers."""

import re

_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
_FALSE_WORDS = frozenset({"", "0", "false", "no", "off"})
_SIZE_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SPAN = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[hd])|forever")
_SPAN_UNITS_S = {"h": 3_600, "d": 86_400}
_MAX_PORT = 65_535
_WEEK_S = 7 * 86_400.0


def parse_flag(text: str) -> bool:
    """Read a yes or no as people write it into environment variables."""
    word = text.strip().lower()
    if word in _TRUE_WORDS:
        return True
    if word in _FALSE_WORDS:
        return False
    raise ValueError(f"{text!r} is neither yes nor no")


def parse_port(text: str) -> int:
    """Read a TCP port; 0 lets the system choose a free one."""
    try:
        port = int(text)
    except ValueError:
        port = -1
    if not 0 <= port <= _MAX_PORT:
        raise ValueError(f"{text!r} is not a port (0 to {_MAX_PORT})")
    return port


def parse_size(text: str) -> int:
    """Read a positive number of bytes: `1048576`, `64MiB`, `2 GiB`."""
    word = text.strip()
    unit = next((unit for unit in _SIZE_UNITS if word.lower().endswith(unit.lower())), "")
    num_bytes = int(float(word[: len(word) - len(unit)]) * _SIZE_UNITS.get(unit, 1))
    if num_bytes <= 0:
        raise ValueError(f"{text!r} is not a size")
    return num_bytes


def parse_retention(text: str) -> tuple[tuple[str, int | None], ...]:
    """Read `table=14d,table=12h,table=forever` as seconds by table, None for ever."""
    pairs: list[tuple[str, int | None]] = []
    for word in filter(None, map(str.strip, text.split(","))):
        table, _, span = word.partition("=")
        match = _SPAN.fullmatch(span.strip())
        if match is None:
            raise ValueError(f"{word!r} is not like gpu_samples=14d, 12h or forever")
        keep_s = int(match["number"]) * _SPAN_UNITS_S[match["unit"]] if match["number"] else None
        pairs.append((table.strip(), keep_s))
    return tuple(pairs)


def parse_count(text: str) -> int:
    """Read a positive whole number."""
    number = int(text)
    if number <= 0:
        raise ValueError(f"{text!r} is not a positive number")
    return number


def parse_seconds(text: str) -> float:
    """Read a positive number of seconds."""
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{text!r} is not a positive number of seconds")
    return seconds


def parse_digest(text: str) -> float:
    """Read the seconds between digests: a week at most, as what was told is known for two."""
    seconds = parse_seconds(text)
    if seconds > _WEEK_S:
        raise ValueError(f"{text!r} is more than a week")
    return seconds
