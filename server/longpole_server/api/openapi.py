"""The description of the API: FastAPI's own, with the errors that this API answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI

_FASTAPI_ERRORS = ("HTTPValidationError", "ValidationError")
_ERROR = "ErrorDocument"
_JSON = "application/json"
# What may go wrong on any route; a status that a route names itself stays as it says.
_ERRORS: Mapping[str, str] = {
    "400": "A parameter or the body makes no sense.",
    "404": "There is no such run, step, sample, alert or path.",
    "503": "The store does not answer.",
}


def describe_errors(api: FastAPI) -> None:
    """Make the description name the API's errors in place of FastAPI's, which it never answers."""
    describe = api.openapi

    def describe_all() -> dict[str, Any]:
        known = api.openapi_schema
        return known if known is not None else _correct(describe())

    api.openapi = describe_all


def _correct(schema: dict[str, Any]) -> dict[str, Any]:
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for name in _FASTAPI_ERRORS:
        schemas.pop(name, None)
    schemas[_ERROR] = {
        "type": "object",
        "title": _ERROR,
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "hint"],
                "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
            }
        },
    }
    for operation in _list_operations(schema):
        responses = operation.setdefault("responses", {})
        if _is_fastapi_error(responses.get("422")):
            del responses["422"]
        for status, text in _ERRORS.items():
            responses.setdefault(status, _describe(text))
    return schema


def _list_operations(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in schema.get("paths", {}).values():
        yield from (operation for operation in methods.values() if "responses" in operation)


def _is_fastapi_error(response: Mapping[str, Any] | None) -> bool:
    reference = (response or {}).get("content", {}).get(_JSON, {}).get("schema", {}).get("$ref", "")
    return str(reference).endswith(_FASTAPI_ERRORS[0])


def _describe(text: str) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_ERROR}"}
    return {"description": text, "content": {_JSON: {"schema": reference}}}
