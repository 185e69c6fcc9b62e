"""Answers in JSON, and errors in the API's one form."""

import logging
from collections.abc import Mapping

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from longpole_server.api.documents import ErrorBody, ErrorDocument
from longpole_server.errors import (
    BadRequestError,
    BusyError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    StoreError,
    TooLargeError,
    UnreadableLogError,
    WriterAwayError,
)

_logger = logging.getLogger(__name__)

# First match wins: subclasses stand before their base.
_STATUSES: tuple[tuple[type[ServerError], int], ...] = (
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (TooLargeError, 413),
    (BadRequestError, 400),
    (UnreadableLogError, 422),
    (BusyError, 429),
    (StoreError, 503),
    (WriterAwayError, 503),
)
_CODES = {401: "unauthorized", 404: "not_found", 405: "method_not_allowed"}


class JsonResponse(Response):
    """JSON of dataclasses, mappings, sequences; what is not a finite number becomes null."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Return the body."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def make_error(
    status: int, code: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None
) -> JsonResponse:
    """Return an error in the API's form."""
    return JsonResponse(ErrorDocument(ErrorBody(code, message, hint)), status, headers)


def add_error_handlers(api: FastAPI) -> None:
    """Make every error of the application answer in the API's form."""
    api.add_exception_handler(ServerError, _on_server_error)
    api.add_exception_handler(RequestValidationError, _on_invalid_request)
    api.add_exception_handler(HTTPException, _on_http_error)
    api.add_exception_handler(Exception, _on_defect)


def _on_server_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServerError)  # noqa: S101 - registered for this class only
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
    if status >= 500:
        _logger.error("%s %s: %s", request.method, request.url.path, error.message)
    headers: dict[str, str] = {}
    if isinstance(error, BusyError):
        headers["Retry-After"] = f"{max(1, round(error.retry_after_s))}"
    return make_error(status, error.code, error.message, error.hint, headers)


def _on_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'][1:])}: {problem['msg']}"
        for problem in error.errors()
    ]
    return make_error(
        400, "bad_request", "; ".join(problems), "see /api/openapi.json for the parameters"
    )


def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    message = f"no such path: {request.url.path}" if error.status_code == 404 else str(error.detail)
    return make_error(
        error.status_code,
        _CODES.get(error.status_code, "http_error"),
        message,
        headers=error.headers,
    )


def _on_defect(request: Request, error: Exception) -> Response:
    _logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return make_error(500, "internal", "the server failed on this request", "see its log")
