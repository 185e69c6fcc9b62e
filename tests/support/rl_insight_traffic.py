"""What the real client of RL-Insight sent during a real training of verl, read back."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

DATA = Path(__file__).parents[1] / "data" / "rl_insight"


@dataclass(frozen=True)
class Event:
    """A request of the client, or its page as it stood at a time."""

    t_ns: int
    kind: Literal["request", "page"]
    path: str
    content_type: str
    encoding: str
    body: bytes


def read_traffic(name: str = "verl_0.9.1_traffic.jsonl") -> list[Event]:
    return list(_read(DATA / name))


def read_file_log(name: str = "verl_0.9.1_file.jsonl") -> dict[int, Mapping[str, Any]]:
    """Return verl's own log of the same training: data by step."""
    rows = (json.loads(line) for line in (DATA / name).read_text().splitlines())
    return {row["step"]: cast("Mapping[str, Any]", row["data"]) for row in rows}


def _read(path: Path) -> Iterator[Event]:
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "page":
            yield Event(row["t_ns"], "page", row["target"], "text/plain", "", row["text"].encode())
        else:
            body = base64.b64decode(row["body"])
            content_type = row["content_type"] or "application/x-protobuf"
            yield Event(row["t_ns"], "request", row["path"], content_type, row["encoding"], body)
