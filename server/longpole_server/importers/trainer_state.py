"""`trainer_state.json` of transformers: the whole log of a training in one document, with steps."""

from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import orjson

from longpole_server.importers.logged import LogLine, LogSummary
from longpole_server.importers.tracked import Tracked, TrackedReader
from longpole_server.importers.values import read_scalars

# The document is read as a whole; a training's log has a few megabytes.
MAX_BYTES = 256 << 20
_HISTORY = b'"log_history"'


def is_trainer_state(head: bytes) -> bool:
    """Return whether a file begins as such a document does."""
    return head.lstrip()[:1] == b"{" and _HISTORY in head


def read_trainer_state(stream: BinaryIO, summary: LogSummary) -> Iterator[LogLine]:
    """Yield the records of the log; evaluations and the last summary are no steps.

    Args:
        stream: The file from its start.
        summary: Counts grow as records are read.
    """
    body = stream.read(MAX_BYTES + 1)
    summary.num_lines += 1
    if len(body) > MAX_BYTES:
        summary.num_overlong += 1
        return
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        summary.num_unreadable += 1
        return
    fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    history = fields.get("log_history")
    reader = TrackedReader()
    for entry in cast("list[object]", history) if isinstance(history, list) else []:
        if not isinstance(entry, dict):
            continue
        values = read_scalars(cast("dict[str, object]", entry), summary)
        step = values.pop("step", None)
        if step is None or "train_runtime" in values:
            continue
        summary.num_step_lines += 1
        yield from reader.take(Tracked(round(step), values))
