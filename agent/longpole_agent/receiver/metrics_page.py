"""`GET /metrics`: the agent's own figures in Prometheus' text format."""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from longpole_agent.receiver.answers import Receive, Send, respond, respond_text
from longpole_agent.receiver.rl_insight_door import App

METRICS_PATH = "/metrics"

_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class OwnMetric:
    """One figure about the agent; the name ends in its unit, or in `_total` for a counter.

    Attributes:
        samples: Values by the value of `label`; the first is "" where there is no label.
        label: Name of the label, "" for none.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: Sequence[tuple[str, float]]
    label: str = ""


class MetricsDoor:
    """The door in front of everything else, as ASGI.

    Args:
        inner: Answers everything else.
        collect: Gives the figures, anew with each request.
    """

    def __init__(self, inner: App, collect: Callable[[], Iterable[OwnMetric]]) -> None:
        self._inner = inner
        self._collect = collect

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != METRICS_PATH:
            await self._inner(scope, receive, send)
        elif scope["method"] not in {"GET", "HEAD"}:
            await respond_text(send, 405, "read it with GET", (b"allow", b"GET, HEAD"))
        else:
            await respond(send, 200, render_metrics(self._collect()).encode(), _EXPOSITION)


def render_metrics(metrics: Iterable[OwnMetric]) -> str:
    """Return figures in Prometheus' text format."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for value_of, value in metric.samples:
            labels = f'{{{metric.label}="{value_of.translate(_ESCAPES)}"}}' if metric.label else ""
            lines.append(f"{metric.name}{labels} {float(value)!r}")
    return "\n".join(lines) + "\n"
