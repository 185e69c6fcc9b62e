"""Sends the spans of engines' requests to an agent, as vLLM with tracing does: OTLP as JSON.

Each replica is a sender of its own, which names the GPUs that it is sharded over.
"""

import contextlib
import http.client
import json
import os
import urllib.parse
from collections.abc import Mapping, Sequence

from longpole.conventions import attributes as names
from longpole_sim.plan import PartPlan, TrajectoryPlan

# Prompt tokens that a replica takes in at a speed of 1, next to those its prefix cache holds.
_PREFILL_TOKENS_PER_S = 20_000.0
# The rest of a request decodes, however long its prompt is.
_MAX_PREFILL_RATIO = 0.5
_TIMEOUT_S = 2.0
_MAX_WAITING, _AT_ONCE = 8_192, 512
_SERVER_KIND = 2

Resource = Mapping[str, str | int | Sequence[str]]


class RequestReporter:
    """Collects requests of samples that ended, and sends them together.

    Args:
        endpoint: Address of the node's agent.
        resources: Who sends, by name of the replica.
        speed: How many times faster than life the run is.
        max_waiting: Above this the oldest are lost, as an exporter's queue loses them.
    """

    def __init__(
        self,
        endpoint: str,
        resources: Mapping[str, Resource],
        speed: float,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._address = urllib.parse.urlsplit(endpoint)
        self._resources = resources
        self._prefill_rate = _PREFILL_TOKENS_PER_S * speed
        self._max_waiting = max_waiting
        self._waiting: list[tuple[str, dict[str, object]]] = []

    def add(self, plan: TrajectoryPlan, origin_ns: int) -> None:
        """Take the requests of a sample whose times count from `origin_ns`: one a turn."""
        queue: PartPlan | None = None
        uncached = max(0, plan.input_tokens - plan.cached_tokens)
        for part in plan.parts:
            if part.kind == "queue":
                queue = part
            elif part.kind == "generate":
                span = self._encode(plan, queue, part, uncached, origin_ns)
                self._waiting.append((plan.replica, span))
                # What a later turn adds to the prompt is little; the rest is in the cache.
                queue, uncached = None, 0
        del self._waiting[: -self._max_waiting]

    def send(self) -> None:
        """Send what waits. What the agent does not take is lost, as traces of engines are."""
        spans, self._waiting = self._waiting, []
        for start in range(0, len(spans), _AT_ONCE):
            by_replica: dict[str, list[dict[str, object]]] = {}
            for replica, span in spans[start : start + _AT_ONCE]:
                by_replica.setdefault(replica, []).append(span)
            with contextlib.suppress(OSError, http.client.HTTPException):
                self._post(json.dumps(self._make_request(by_replica)).encode())

    def _encode(
        self,
        plan: TrajectoryPlan,
        queue: PartPlan | None,
        part: PartPlan,
        uncached: int,
        origin_ns: int,
    ) -> dict[str, object]:
        start_s = part.start_s if queue is None else queue.start_s
        prefill_s = min(
            uncached / self._prefill_rate, (part.end_s - part.start_s) * _MAX_PREFILL_RATIO
        )
        values: dict[str, str | int | float] = {
            names.REQUEST_ID: plan.trajectory_id,
            names.INPUT_TOKENS: plan.input_tokens,
            names.OUTPUT_TOKENS: round(part.tokens),
            "gen_ai.latency.time_in_queue": part.start_s - start_s,
            "gen_ai.latency.time_in_model_prefill": prefill_s,
            "gen_ai.latency.time_to_first_token": part.start_s - start_s + prefill_s,
            "gen_ai.latency.e2e": part.end_s - start_s,
        }
        return {
            "traceId": os.urandom(16).hex(),
            "spanId": os.urandom(8).hex(),
            "name": "llm_request",
            "kind": _SERVER_KIND,
            "startTimeUnixNano": str(origin_ns + round(start_s * 1e9)),
            "endTimeUnixNano": str(origin_ns + round(part.end_s * 1e9)),
            "attributes": [{"key": key, "value": _value(value)} for key, value in values.items()],
        }

    def _make_request(
        self, by_replica: Mapping[str, Sequence[Mapping[str, object]]]
    ) -> dict[str, object]:
        return {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": [
                            {"key": key, "value": _value(value)}
                            for key, value in self._resources[replica].items()
                        ]
                    },
                    "scopeSpans": [{"scope": {"name": "vllm.llm_engine"}, "spans": spans}],
                }
                for replica, spans in by_replica.items()
            ]
        }

    def _post(self, body: bytes) -> None:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=_TIMEOUT_S
        )
        with contextlib.closing(connection):
            connection.request("POST", "/v1/traces", body, {"content-type": "application/json"})
            connection.getresponse().read()


def _value(value: str | float | Sequence[str]) -> dict[str, object]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
