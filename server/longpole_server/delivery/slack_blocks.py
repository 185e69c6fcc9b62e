"""Notices as Slack's Block Kit, within its limits by construction."""

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
_MAX_SUMMARY = 500
_MAX_ADVICE = 400
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
    return _cut(f"{mark} {escape(make_title(notice))}", MAX_FALLBACK)


def escape(text: str) -> str:
    """Return text in which nothing is markup: no link, no mention of everybody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_part(part: Part) -> list[dict[str, Any]]:
    mark = _OVER if part.is_over else _MARKS[part.severity]
    title = escape(_cut(part.title, MAX_HEADER))
    lines = [f"{mark} *{title}*", escape(_cut(part.summary, _MAX_SUMMARY))]
    if part.advice:
        lines.append(escape(_cut(part.advice, _MAX_ADVICE)))
    if part.link:
        lines.append(f"<{part.link}|Open the dashboard>")
    text = "\n".join(lines)
    return [
        {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, MAX_SECTION)}},
        _make_context(escape(_cut(part.facts, _MAX_SUMMARY))),
    ]


def _make_context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def _cut(text: str, limit: int) -> str:
    text = "".join(letter for letter in text if letter.isprintable() or letter == "\n")
    text = text.strip() or "-"
    return text if len(text) <= limit else text[: limit - 1] + "…"
