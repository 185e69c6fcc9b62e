"""Who changed what, and who signed in: one JSON object a line, the newest last."""

import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path

from longpole_server.errors import ConfigError

_logger = logging.getLogger(__name__)

_MAX_BYTES = 10 << 20
_NUM_OLD = 9
_MAX_TEXT = 500


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One act.

    Attributes:
        ts_ns: UTC.
        who: Of `Principal.name`; for a failed sign-in the name that was given.
        action: Such as `rule.save`, `session.begin`.
        target: What it was done to, empty where the action says it.
        outcome: `done`, or why not.
        address: Where it came from, empty for the server itself.
    """

    ts_ns: int
    who: str
    action: str
    target: str
    outcome: str
    address: str


class _AuditFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Say in the server's log that an entry is lost."""
        _logger.error("an entry of the audit log is lost: %s", record.msg, exc_info=True)


class AuditLog:
    """Appends entries to a file, of which the last hundred megabytes are kept. Thread-safe.

    A disk that refuses an entry does not undo what was done: the server's log says so.
    """

    def __init__(self, file: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._file = file
        self._clock_ns = clock_ns
        try:
            # For its owner alone from the beginning.
            os.close(os.open(file, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
            _end_torn_line(file)
            self._handler = _AuditFile(
                file, maxBytes=_MAX_BYTES, backupCount=_NUM_OLD, encoding="utf-8"
            )
        except OSError as error:
            raise ConfigError(f"cannot write the audit log {file}: {error.strerror}") from error

    def record(
        self, who: str, action: str, target: str = "", outcome: str = "done", address: str = ""
    ) -> None:
        """Append what somebody did now."""
        entry = AuditEntry(
            self._clock_ns(),
            who[:_MAX_TEXT],
            action,
            target[:_MAX_TEXT],
            outcome[:_MAX_TEXT],
            address,
        )
        line = json.dumps(asdict(entry), ensure_ascii=False)
        self._handler.handle(logging.makeLogRecord({"msg": line}))

    def list_newest(self, limit: int) -> list[AuditEntry]:
        """Return the newest entries, the newest first."""
        found: deque[AuditEntry] = deque(maxlen=limit)
        for file in (self._file.with_name(f"{self._file.name}.1"), self._file):
            if file.exists():
                with file.open(encoding="utf-8", errors="replace") as lines:
                    found.extend(entry for line in lines if (entry := _read(line)) is not None)
        return list(reversed(found))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


def _end_torn_line(file: Path) -> None:
    """Let what comes next begin a line: the last one may be torn by a full disk and a kill."""
    # Where the disk is full still, nothing can be appended either.
    with suppress(OSError), file.open("rb+") as stream:
        if not stream.seek(0, os.SEEK_END):
            return
        stream.seek(-1, os.SEEK_END)
        if stream.read(1) != b"\n":
            stream.write(b"\n")


def _read(line: str) -> AuditEntry | None:
    try:
        return AuditEntry(**json.loads(line))
    except (ValueError, TypeError):
        # Torn by a full disk.
        return None
