"""Notices as Slack's Block Kit, within its limits by construction."""

import re
from typing import Any

import orjson

from longpole_server.delivery.notice import MAX_PARTS, Notice, Part, make_parts, make_title

# Slack's own limits: 50 blocks a message, 3,000 characters a section, 150 a header, and in sum
# about 13,000 a message.
MAX_BLOCKS = 50
MAX_SECTION = 3_000
MAX_HEADER = 150
MAX_FALLBACK = 3_000
_MAX_TOTAL = 10_000
# As sent: letters of markup take several each.
_MAX_TITLE = 300
_MAX_SUMMARY = 900
_MAX_ADVICE = 700
# Letters that would make text bold, code or struck through, and what looks like them. An
# underscore does so at the edge of a word only.
_LOOK_ALIKES = str.maketrans({"*": "\u2217", "`": "\u02cb", "~": "\u223c"})
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LOW_LINE = "\u02cd"
_MARKS = {"critical": ":red_circle:", "warning": ":large_orange_circle:", "info": ":blue_circle:"}
_OVER = ":white_check_mark:"


def make_blocks(notice: Notice) -> list[dict[str, Any]]:
    """Return the blocks of a message."""
    parts = make_parts(notice)
    blocks: list[dict[str, Any]] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": _cut(make_title(notice), MAX_HEADER)},
        }
    ]
    shown, room = 0, _MAX_TOTAL
    for part in parts[:MAX_PARTS]:
        made = _make_part(part)
        room -= len(orjson.dumps(made))
        if shown and room < 0:
            break
        blocks += made
        shown += 1
    if len(parts) > shown:
        blocks.append(_make_context(f"and {len(parts) - shown} more"))
    blocks.append(_make_context(f"message {notice.message_id}"))
    return blocks


def make_fallback(notice: Notice) -> str:
    """Return the text of notifications and of clients that show no blocks."""
    mark = _OVER if notice.is_over else _MARKS[notice.severity]
    return f"{mark} {_fit(make_title(notice), MAX_FALLBACK - len(mark) - 1)}"


def escape(text: str) -> str:
    """Return text in which nothing is markup: no link, no mention of everybody, no style."""
    plain = _EDGE.sub(_LOW_LINE, text.translate(_LOOK_ALIKES))
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_part(part: Part) -> list[dict[str, Any]]:
    mark = _OVER if part.is_over else _MARKS[part.severity]
    title = _fit(" ".join(part.title.split()), _MAX_TITLE)
    lines = [f"{mark} *{title}*", _fit(part.summary, _MAX_SUMMARY)]
    if part.advice:
        lines.append(_fit(part.advice, _MAX_ADVICE))
    link = f"<{part.link}|Open the dashboard>" if part.link else ""
    # A link that is cut leads nowhere.
    if link and len(link) + sum(len(line) + 1 for line in lines) <= MAX_SECTION:
        lines.append(link)
    return [
        {"type": "section", "text": _make_markup("\n".join(lines))},
        _make_context(_fit(part.facts, _MAX_SUMMARY)),
    ]


def _make_context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [_make_markup(text)]}


def _make_markup(text: str) -> dict[str, Any]:
    # Else Slack makes links of what looks like an address, a channel or a name.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _fit(text: str, limit: int) -> str:
    """Return escaped text of so many letters at most, none of them half."""
    size = limit
    while len(escaped := escape(_cut(text, size))) > limit:
        size = max(1, size - max(1, (len(escaped) - limit) // 5))
    return escaped


def _cut(text: str, limit: int) -> str:
    text = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    text = text.strip() or "-"
    return text if len(text) <= limit else text[: limit - 1] + "…"
