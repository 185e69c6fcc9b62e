"""Refuses requests to Dash that no page of ours makes.

By itself Dash takes whatever comes for one of its own: what is malformed, outdated or made up ends
as a failure of the server, with a stack trace in its log.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Callable, Mapping
from types import UnionType
from typing import Any, cast

import orjson
from dash import Dash
from dash.fingerprint import check_fingerprint
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CALLBACK_PATH, SOCKET_PATH = "/_dash-update-component", "/_dash-ws-callback"
SUITES_PREFIX = "/_dash-component-suites/"
_BAD_DATA = 1007
_OUTDATED = "no page has such a callback: reload the page"


class CallbackDoor:
    """Middleware before Dash.

    Args:
        app: Dash.
        find_dash: Gives the dashboards, with all their callbacks registered.
    """

    def __init__(self, app: ASGIApp, find_dash: Callable[[], Dash]) -> None:
        self._app = app
        self._find_dash = find_dash

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        kind, path = scope["type"], scope.get("path", "")
        if kind == "http" and path == CALLBACK_PATH and scope["method"] == "POST":
            await self._answer_callback(scope, receive, send)
        elif kind == "http" and path.startswith(SUITES_PREFIX):
            await self._answer_file(scope, receive, send)
        elif kind == "websocket" and path == SOCKET_PATH:
            await self._app(scope, self._check_messages(receive, send), send)
        else:
            await self._app(scope, receive, send)

    async def _answer_callback(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await Request(scope, receive).body()
        except ClientDisconnect:
            return
        problem = self._find_problem(_parse(body))
        if problem is not None:
            await _refuse(problem)(scope, receive, send)
            return
        is_read = False

        async def repeat() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, repeat, send)

    async def _answer_file(self, scope: Scope, receive: Receive, send: Send) -> None:
        package, _, name = scope["path"].removeprefix(SUITES_PREFIX).partition("/")
        paths = cast("Mapping[str, set[str]]", self._find_dash().registered_paths)
        is_known = package in paths and check_fingerprint(name)[0] in paths[package]
        answer = self._app if is_known else _refuse((404, "there is no such file"))
        await answer(scope, receive, send)

    def _check_messages(self, receive: Receive, send: Send) -> Receive:
        async def receive_checked() -> Message:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            if self._is_sane(_parse(message.get("text") or message.get("bytes") or b"")):
                return message
            await send({"type": "websocket.close", "code": _BAD_DATA})
            return {"type": "websocket.disconnect", "code": _BAD_DATA}

        return receive_checked

    def _is_sane(self, message: object) -> bool:
        """Tell whether a message over the websocket is one that Dash can take."""
        if not isinstance(message, dict):
            return False
        fields = cast("dict[str, Any]", message)
        return fields.get("type") != "callback_request" or (
            self._find_problem(fields.get("payload")) is None
        )

    def _find_problem(self, body: object) -> tuple[int, str] | None:
        """Return why a call of a callback is none of ours: status and message."""
        if not isinstance(body, dict):
            return 400, "the body is no JSON object"
        call = cast("dict[str, Any]", body)
        output = call.get("output")
        if not isinstance(output, str):
            return 400, "output names no callback"
        known = cast("Mapping[str, Mapping[str, Any]]", self._find_dash().callback_map).get(output)
        if known is None:
            return 404, _OUTDATED
        changed = call.get("changedPropIds", [])
        if not _is_list_of(changed, str):
            return 400, "changedPropIds is no list of names"
        for field, expected in (("inputs", known["inputs"]), ("state", known["state"])):
            given = call.get(field, [])
            if not isinstance(given, list):
                return 400, f"{field} is no list"
            if not _fit(cast("list[Any]", given), expected):
                return 400, f"{field} are not those of this callback: reload the page"
        outputs = call.get("outputs") or []
        if not isinstance(outputs, dict) and not _is_list_of(cast("object", outputs), dict | list):
            return 400, "outputs are none"
        return None


def _parse(body: bytes | str) -> object:
    try:
        return cast("object", orjson.loads(body))
    except orjson.JSONDecodeError:
        return None


def _fit(given: list[Any], expected: list[Mapping[str, Any]]) -> bool:
    """Tell whether values are those that a callback takes: one each, or those of a pattern."""
    return len(given) == len(expected) and all(
        all(_is_value(each, spec["property"]) for each in cast("list[Any]", value))
        if isinstance(value, list)
        else _is_value(value, spec["property"])
        for value, spec in zip(given, expected, strict=True)
    )


def _is_value(value: object, name: str) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast("dict[str, Any]", value)
    return isinstance(fields.get("id"), str | dict) and fields.get("property") == name


def _is_list_of(value: object, kind: type | UnionType) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(each, kind) for each in cast("list[object]", value))


def _refuse(problem: tuple[int, str]) -> JSONResponse:
    status, message = problem
    code = "not_found" if status == 404 else "bad_request"
    return JSONResponse({"error": {"code": code, "message": message, "hint": None}}, status)
