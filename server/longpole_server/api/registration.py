"""The body of `POST /prometheus/targets`, as RL-Insight's client sends it.

A target is `{"target": "host:port", "labels": {...}}` or the bare address. Labels of the request
hold for all its targets; so do `project` and `experiment_name`, which newer clients send beside
them. `host` names the node of the sender.
"""

from collections.abc import Mapping
from typing import Any, cast

import orjson

from longpole_server.errors import BadRequestError
from longpole_server.model.discovery import Registration

# The job under which RL-Insight's client registers a trainer that names none.
_DEFAULT_JOB = "trainer_metrics"
_IDENTITY = ("project", "experiment_name")
_HINT = '{"job_name": "...", "targets": [{"target": "host:port", "labels": {}}]} is expected'

BODY_SCHEMA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["targets"],
                    "properties": {
                        "job_name": {"type": "string", "default": _DEFAULT_JOB},
                        "host": {"type": "string"},
                        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                        "targets": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["target"],
                                "properties": {
                                    "target": {"type": "string", "example": "10.0.0.7:9092"},
                                    "labels": {
                                        "type": "object",
                                        "additionalProperties": {"type": "string"},
                                    },
                                },
                            },
                        },
                    },
                }
            }
        },
    }
}


def read_registration(body: bytes, address: str | None) -> Registration:
    """Return what a request registers.

    Args:
        body: As received.
        address: Network address that it came from.

    Raises:
        BadRequestError: It has another form.
    """
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequestError(f"the body is no JSON: {error}", hint=_HINT) from error
    fields = _read_object(document, "the body")
    targets = fields.get("targets")
    if not isinstance(targets, list):
        raise BadRequestError("`targets` is not a list", hint=_HINT)
    shared = _read_labels(fields.get("labels"))
    shared |= _read_labels({key: fields[key] for key in _IDENTITY if fields.get(key)})
    return Registration(
        job_name=_read_text(fields, "job_name") or _DEFAULT_JOB,
        targets=tuple(_read_target(item, shared) for item in cast("list[object]", targets)),
        host=_read_text(fields, "host"),
        address=address,
    )


def _read_target(item: object, shared: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    if isinstance(item, str):
        return item, shared
    fields = _read_object(item, "a target")
    target = _read_text(fields, "target")
    if target is None:
        raise BadRequestError("a target has no `target`", hint=_HINT)
    return target, {**shared, **_read_labels(fields.get("labels"))}


def _read_labels(value: object) -> dict[str, str]:
    if value is None:
        return {}
    labels: dict[str, str] = {}
    for name, text in _read_object(value, "`labels`").items():
        if not isinstance(text, str | int | float):
            raise BadRequestError(f"label {name[:100]!r} is not text", hint=_HINT)
        labels[name] = str(text)
    return labels


def _read_text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"`{name}` is not text", hint=_HINT)
    return value or None


def _read_object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadRequestError(f"{what} is not an object", hint=_HINT)
    return cast("dict[str, object]", value)
