"""Events of pretend alerts for tests of delivery."""

from typing import Any

from longpole_server.delivery.notice import Notice
from longpole_server.model.alert import AlertEvent
from support.alert_histories import at


def make_event(number: int = 1, **fields: Any) -> AlertEvent:
    known: dict[str, Any] = {
        "event_id": f"event-{number}",
        "alert_id": f"alert-{number}",
        "kind": "firing",
        "ts_ns": at(10),
        "decided_ns": at(10 + number),
        "rule": "loss.nan",
        "severity": "critical",
        "run_id": "team/run",
        "run_name": "run",
        "project": "team",
        "entity_kind": "run",
        "entity_id": "team/run",
        "started_ns": at(10),
        "started_step": 4,
        "fired_ns": at(10),
        "step": 4,
        "count": 1,
        "value": 2.0,
        "threshold": 1.0,
        "baseline": 0.5,
        "unit": "s",
        "summary": "It took 2 s.",
        "cause": "Something slow.",
        "first_look": "The slow thing.",
        "notify": True,
    }
    return AlertEvent(**{**known, **fields})


def make_notice(*events: AlertEvent, **fields: Any) -> Notice:
    titles = {"loss.nan": "Loss is not a number", "gpu.lost": "GPU lost"}
    return Notice("m1", events or (make_event(),), titles, "http://dashboard", **fields)
