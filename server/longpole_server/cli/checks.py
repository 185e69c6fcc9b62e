"""What `longpole doctor` says of one thing it looked at."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Verdict = Literal["ok", "note", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: how it is, and what to do when it is not well."""

    verdict: Verdict
    subject: str
    text: str
    advice: str = ""


class Server(Protocol):
    """What is asked; `ServerClient` is one."""

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at `/api/v1<path>`."""
        ...

    def get_metrics(self) -> Mapping[str, float]:
        """Return the server's own figures by name."""
        ...


def describe_size(num_bytes: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.1f} TiB"


def describe_span(seconds: float) -> str:
    """Return a time as people say it, in its largest unit."""
    for unit, length_s in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
