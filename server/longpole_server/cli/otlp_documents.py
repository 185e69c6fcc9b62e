"""OTLP requests as JSON: gauges of steps and of engines, and log events."""

from collections.abc import Mapping, Sequence
from typing import Any

from longpole.conventions import attributes as names
from longpole_server.importers.engine_lines import EngineLine

_SEVERITY_INFO = 9

Resource = Mapping[str, str | int]


def metrics_document(
    resource: Resource,
    step: int,
    scalars: Mapping[str, float],
    engines: Sequence[EngineLine],
    time_ns: int,
) -> dict[str, Any]:
    """Return a metrics request: a step's scalars, and each engine as a process of its own."""
    metrics = [_gauge(name, value, time_ns, step) for name, value in scalars.items()]
    return {
        "resourceMetrics": [
            _resource_metrics(resource, metrics),
            *_engine_metrics(resource, engines, time_ns),
        ]
    }


def event_document(
    resource: Resource, event: str, attributes: Resource, time_ns: int
) -> dict[str, Any]:
    """Return a logs request with one event."""
    record = {
        "timeUnixNano": str(time_ns),
        "observedTimeUnixNano": str(time_ns),
        "severityNumber": _SEVERITY_INFO,
        "eventName": event,
        "attributes": _attributes({names.EVENT_NAME: event, **attributes}),
    }
    scope_logs = [{"scope": {"name": names.IMPORT_SERVICE}, "logRecords": [record]}]
    return {
        "resourceLogs": [
            {"resource": {"attributes": _attributes(resource)}, "scopeLogs": scope_logs}
        ]
    }


def _engine_metrics(
    resource: Resource, lines: Sequence[EngineLine], time_ns: int
) -> list[dict[str, Any]]:
    """Return engines' series, each replica a process of its own; the newest value of each name."""
    newest: dict[str, dict[str, float]] = {}
    for line in lines:
        newest.setdefault(line.replica, {}).update(line.values)
    return [
        _resource_metrics(
            {**resource, names.ROLE: "rollout", names.SERVICE_INSTANCE_ID: replica},
            [_gauge(name, value, time_ns, None) for name, value in values.items()],
        )
        for replica, values in newest.items()
    ]


def _resource_metrics(resource: Resource, metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "resource": {"attributes": _attributes(resource)},
        "scopeMetrics": [{"scope": {"name": names.IMPORT_SERVICE}, "metrics": metrics}],
    }


def _gauge(name: str, value: float, time_ns: int, step: int | None) -> dict[str, Any]:
    point: dict[str, Any] = {"timeUnixNano": str(time_ns), "asDouble": value}
    if step is not None:
        point["attributes"] = _attributes({names.ITERATION: step})
    return {"name": name, "gauge": {"dataPoints": [point]}}


def _attributes(values: Resource) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in values.items()
    ]
