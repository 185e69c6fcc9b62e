"""How the programs write their log: lines for people, or one JSON object a line for collectors."""

import json
import logging
import re
from datetime import datetime, timezone
from typing import TextIO

FORMS = ("text", "json")

_TEXT = "%(asctime)s %(levelname)s %(message)s"
# What would begin another line, or speak to a terminal: names of runs and hosts come from anywhere.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class TextLines(logging.Formatter):
    """Writes time, level and message; only an exception takes further lines."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return a record as one line."""
        line = super().formatMessage(record)
        return _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", line)


class JsonLines(logging.Formatter):
    """Writes `time` (UTC, RFC 3339), `level`, `logger`, `message`, and an `exception` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line."""
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def parse_form(text: str) -> str:
    """Return the form of log lines that an option names.

    Raises:
        ValueError: There is no such form.
    """
    if text not in FORMS:
        raise ValueError(f"{text!r} is neither {' nor '.join(FORMS)}")
    return text


def set_up_logging(form: str, stream: TextIO) -> None:
    """Log what an operator must know, from `info` on.

    Args:
        form: One of `FORMS`.
        stream: Where to.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
