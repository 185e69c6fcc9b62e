r"""Physical lines without what Ray, terminals and containers put around them.

`\x1b[36m(TrainActor pid=7, ip=10.0.0.1)\x1b[0m text [repeated 3x across cluster]` is `text`, sent
by `TrainActor pid=7, ip=10.0.0.1`, and `[default0]:text` by `default0`: several processes' lines
interleave in one log, and what one of them prints over several lines is told from the others' by
its sender.
"""

import calendar
import re
from dataclasses import dataclass
from typing import cast

import orjson

# Colours, and what terminals of editors are told about commands.
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\))")
# Copied text shows the escape character as two letters, as its picture, or not at all: then only
# what stands around Ray's prefix is known to be a colour.
_SHOWN_ANSI = re.compile(r"(?:\^\[|\u241b)\[[0-9;?]*[A-Za-z]")
_BARE_COLOUR = r"\[(?:\d{1,3}(?:;\d{1,3}){0,4})?m"
_BARE_COLOURS = re.compile(
    rf"^{_BARE_COLOUR}(\([^()]{{0,160}}?pid=\d+[^()]{{0,80}}\))(?:{_BARE_COLOUR})?"
)
_REPEATED = re.compile(r"\s*\[repeated \d+x across cluster\].*$")
# containerd and CRI-O: `2026-11-29T16:42:00.123456789Z stdout P text`, P for a part of a line.
_CONTAINER = re.compile(r"^\d{4}-\S+ (?:stdout|stderr) [PF] ")
# `kubectl logs --timestamps`.
_TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z ")
# What launchers of several tasks put before each line: srun's `--label`, torchrun's `--tee`, ranks,
# compose, `kubectl logs --prefix`; DeepSpeed's name of the node, known by what follows.
_TASK = (
    r"(?:\s{0,4}\d{1,5}: |\[(?:default|rank)\d{1,5}\]:? ?|[\w.-]{1,80}-\d{1,5} +\| "
    r"|\[pod/[^\]\s]{1,200}\] )"
)
# What may stand before a line's own text.
PREFIX = rf"^(?:\d{{4}}-\d\d-\d\dT[\d:.]+Z (?:std(?:out|err) [PF] )?)?{_TASK}?"
_LAUNCHER = re.compile(rf"^{_TASK}" + r"|^[\w.-]{0,40}\d[\w.-]{0,40}: (?=\{['\"])")
_RAY = re.compile(r"^\(([^()]{0,160}?pid=\d+[^()]{0,80})\) ?")
_BAR_BEFORE = re.compile(r"^.*?\d+%\|.*?\|\s*\d+/\d+ \[[^\]]*\]\s*(?=\S)")
# `2026-11-29 16:42:00.871`, `2026-11-29T16:42:00`, `20261129-16:42:00.338`.
_FULL_TIME = re.compile(
    r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[ T-](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?!\d)"
)
# vLLM's and OpenRLHF's `11-29 16:42:00`.
_YEARLESS_TIME = re.compile(r"(?<![\d-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?!\d)")
_TIME_REACH = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One physical line.

    Attributes:
        sender: The process that Ray or a launcher names, "" where none does.
        ended: A line end followed.
    """

    text: str
    sender: str = ""
    ended: bool = True


def clean_row(raw: bytes) -> Row:
    """Return one physical line without prefixes, colours and line end."""
    ended = raw.endswith((b"\n", b"\r"))
    text = raw.decode("utf-8", errors="replace").rstrip("\r\n")
    if text.startswith('{"log":'):
        text = _read_container_json(text)
    text = strip_colours(text)
    if " std" in text and (container := _CONTAINER.match(text)):
        text = text[container.end() :]
    sender = ""
    if text[4:5] == "-" and (stamp := _TIMESTAMP.match(text)):
        text = text[stamp.end() :]
    if launcher := _LAUNCHER.match(text):
        # Lines of several tasks interleave.
        sender = launcher[0].strip(" :|[]")
        text = text[launcher.end() :]
    if text.startswith("(") and (ray := _RAY.match(text)):
        sender = ray[1]
        text = text[ray.end() :]
    if "%|" in text and (bar := _BAR_BEFORE.match(text)):
        text = text[bar.end() :]
    if "[repeated " in text:
        text = _REPEATED.sub("", text)
    return Row(text, sender, ended)


def strip_colours(text: str) -> str:
    """Return a line without what a terminal would not have shown."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "^[[" in text or "\u241b" in text:
        text = _SHOWN_ANSI.sub("", text)
    if text.startswith("["):
        text = _BARE_COLOURS.sub(r"\1", text)
    return text


def read_time_ns(text: str, year: int) -> int | None:
    """Return the time that a line begins with, UTC nanoseconds, None when it begins with none.

    No log says its time zone: the time is read as if it were UTC, so that it is right relative to
    the other times of the log.

    Args:
        text: A cleaned line.
        year: Of the log, for formats that leave it out.
    """
    head = text[:_TIME_REACH]
    if full := _FULL_TIME.search(head):
        return _to_ns(full.groups())
    if short := _YEARLESS_TIME.search(head):
        return _to_ns((str(year), *short.groups()))
    return None


def _to_ns(parts: tuple[str | None, ...]) -> int | None:
    *whole, fraction = parts
    year, month, day, hour, minute, second = (int(part or 0) for part in whole)
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None
    seconds = calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0))
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))


def _read_container_json(text: str) -> str:
    """Return the line that Docker's `json-file` driver wrapped."""
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    if not isinstance(document, dict):
        return text
    line = cast("dict[str, object]", document).get("log")
    return line.rstrip("\r\n") if isinstance(line, str) else text
