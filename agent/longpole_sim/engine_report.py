"""Sends engines' metrics to an agent, as an exporter beside the engine would: OTLP as JSON."""

import contextlib
import http.client
import json
import urllib.parse
from collections.abc import Mapping, Sequence

from longpole.conventions import attributes as names
from longpole_sim.engine_series import COUNTERS, EngineMeter
from longpole_sim.plan import TrajectoryPlan

_CUMULATIVE = 2
_TIMEOUT_S = 2.0
INTERVAL_S = 1.0


class EngineReporter:
    """Reads the engines of one node and sends what they show.

    Args:
        endpoint: Address of the node's agent.
        resource: Who sends.
        meters: By name of the replica.
        started_ns: Since when the counters count, UTC.
    """

    def __init__(
        self,
        endpoint: str,
        resource: Mapping[str, str | int],
        meters: Mapping[str, EngineMeter],
        started_ns: int,
    ) -> None:
        self._address = urllib.parse.urlsplit(endpoint)
        self._resource = [_attribute(name, value) for name, value in resource.items()]
        self._meters = meters
        self._started_ns = started_ns
        self._origin_ns = started_ns
        self._read_ns = started_ns

    def show(self, step: int, items: Sequence[TrajectoryPlan], origin_ns: int) -> None:
        """Let the engines work on samples of a step whose second 0 was at `origin_ns`."""
        for meter in self._meters.values():
            meter.show(step, items)
        self._origin_ns = origin_ns

    def send(self, now_ns: int) -> None:
        """Send what every engine shows now. A scrape that fails is lost, as scrapes are."""
        to_s = (now_ns - self._origin_ns) / 1e9
        from_s = (self._read_ns - self._origin_ns) / 1e9
        readings: dict[str, Mapping[str, float]] = {}
        for replica, meter in self._meters.items():
            meter.advance(from_s, to_s)
            readings[replica] = meter.read(to_s)
        self._read_ns = now_ns
        if readings:
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._post(json.dumps(self._encode(readings, now_ns)).encode())

    def _post(self, body: bytes) -> None:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=_TIMEOUT_S
        )
        with contextlib.closing(connection):
            connection.request("POST", "/v1/metrics", body, {"content-type": "application/json"})
            connection.getresponse().read()

    def _encode(
        self, readings: Mapping[str, Mapping[str, float]], now_ns: int
    ) -> dict[str, object]:
        points: dict[str, list[dict[str, object]]] = {}
        for replica, series in readings.items():
            for name, value in series.items():
                points.setdefault(name, []).append(
                    {
                        "timeUnixNano": str(now_ns),
                        "startTimeUnixNano": str(self._started_ns),
                        "asDouble": value,
                        "attributes": [_attribute(names.SERVICE_INSTANCE_ID, replica)],
                    }
                )
        metrics = [_metric(name, data_points) for name, data_points in points.items()]
        scope = {"scope": {"name": "vllm"}, "metrics": metrics}
        resource = {"resource": {"attributes": self._resource}, "scopeMetrics": [scope]}
        return {"resourceMetrics": [resource]}


def _metric(name: str, data_points: Sequence[Mapping[str, object]]) -> dict[str, object]:
    if name not in COUNTERS:
        return {"name": name, "gauge": {"dataPoints": data_points}}
    return {
        "name": name,
        "sum": {
            "aggregationTemporality": _CUMULATIVE,
            "isMonotonic": True,
            "dataPoints": data_points,
        },
    }


def _attribute(name: str, value: str | int) -> dict[str, object]:
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": name, "value": {kind: str(value) if isinstance(value, int) else value}}
