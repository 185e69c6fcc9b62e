"""Signing in and out: a page that needs no script, and who the caller is."""

import asyncio
import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from longpole_server.api.access import (
    LOGIN_PATH,
    LOGOUT_PATH,
    Access,
    check_origin,
)
from longpole_server.api.cookies import MARK_COOKIE, SESSION_COOKIE, read_cookie
from longpole_server.api.peers import Peer
from longpole_server.api.responses import make_error
from longpole_server.auth.attempts import Attempts, Source
from longpole_server.auth.audit import AuditLog
from longpole_server.auth.marks import MARK_AGE_S, Marks
from longpole_server.model.principal import Principal

_MAX_BODY_BYTES = 8 << 10
# Hashing takes a core for tens of milliseconds: strangers get no more than one.
_NUM_AT_ONCE = 1
# More that stand in line would wait longer than browsers do.
_MAX_IN_LINE = 50
_NO_STORE = {"Cache-Control": "no-store"}
_PAGE_HEADERS = {
    **_NO_STORE,
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
}
_WRONG = "That name and password are not known here."
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in - Longpole</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="dark light">
<style>
:root {{ --back: #0f1318; --card: #171d25; --line: #2b3440; --text: #e6ebf1; --soft: #9aa7b5;
  --accent: #6ea8fe; --wrong: #ff8f8f; }}
@media (prefers-color-scheme: light) {{ :root {{ --back: #f4f6f8; --card: #fff; --line: #d5dce3;
  --text: #17202a; --soft: #5a6775; --accent: #1f5fbf; --wrong: #b3261e; }} }}
* {{ box-sizing: border-box; }}
body {{ margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--back);
  color: var(--text); font: 15px/1.5 system-ui, sans-serif; padding: 16px; }}
main {{ width: 100%; max-width: 360px; background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; padding: 28px; }}
h1 {{ font-size: 20px; margin: 0 0 4px; }} p {{ margin: 0 0 16px; color: var(--soft); }}
label {{ display: block; margin: 12px 0 4px; font-weight: 600; }}
input {{ width: 100%; padding: 9px 11px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--back); color: var(--text); font: inherit; }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px; }}
button {{ width: 100%; margin-top: 20px; padding: 10px; border: 0; border-radius: 6px;
  background: var(--accent); color: var(--back); font: inherit; font-weight: 600;
  cursor: pointer; }}
.wrong {{ color: var(--wrong); margin: 12px 0 0; }}
</style></head><body><main><h1>Longpole</h1><p>{lead}</p>
<form method="post" action="{action}">
<label for="name">Name</label>
<input id="name" name="name" autocomplete="username" maxlength="128" autofocus>
<label for="password">Password or token</label>
<input id="password" name="password" type="password" autocomplete="current-password"
  maxlength="256" required>
{problem}<button type="submit">Sign in</button></form></main></body></html>
"""
_LEADS = {
    True: "Sign in with your name and password, or with a token alone.",
    False: "Sign in with the server's token; no name is needed.",
}


@dataclass(frozen=True, slots=True)
class Door:
    """What signing in needs."""

    access: Access
    attempts: Attempts
    marks: Marks
    audit: AuditLog


def create_login_routes(door: Door) -> tuple[Route, ...]:
    """Return the routes for the root."""
    signing = _SigningIn(door)
    return (
        Route(LOGIN_PATH, signing.answer, methods=["GET", "POST"]),
        Route(LOGOUT_PATH, signing.end, methods=["POST"]),
    )


class _SigningIn:
    def __init__(self, door: Door) -> None:
        self._access = door.access
        self._attempts = door.attempts
        self._marks = door.marks
        self._audit = door.audit
        self._strangers = _Line()
        self._known = _Line()

    async def answer(self, request: Request) -> Response:
        target = _read_target(request.query_params.get("next", "/"))
        if self._access.book.is_open:
            return RedirectResponse(target, 303, _NO_STORE)
        if request.method != "POST":
            return self._show(target)
        foreign = _refuse_foreign(request)
        if foreign is not None:
            return foreign
        name, password = await _read_form(request)
        return await self._try(request, name, password, target)

    async def end(self, request: Request) -> Response:
        foreign = _refuse_foreign(request)
        if foreign is not None:
            return foreign
        principal = self._access.find_session(request.headers.get("cookie"))
        if principal is not None:
            await asyncio.to_thread(self._access.end_session, request.headers.get("cookie"))
            self._audit.record(principal.name, "session.end", address=_peer(request).address)
        response = RedirectResponse(LOGIN_PATH, 303, _NO_STORE)
        response.delete_cookie(SESSION_COOKIE, path="/")
        return response

    async def _try(self, request: Request, name: str, password: str, target: str) -> Response:
        peer = _peer(request)
        by_token = self._access.book.find_by_token(password)
        if by_token is not None and by_token.may_read:
            # Nobody guesses one, and it is no use to whoever tries names.
            return self._let_in(by_token, peer, target)
        shown = read_cookie(request.headers.get("cookie"), MARK_COOKIE)
        mark = self._marks.find(shown, name) if name else None
        source = Source(peer.address, name, mark)
        line = self._strangers if mark is None else self._known
        if line.is_full:
            return self._delay(target, 1.0)
        wait_s = self._attempts.begin(source)
        if wait_s > 0:
            if self._attempts.is_news(source):
                outcome = "refused: too many attempts"
                self._audit.record(name, "session.begin", "", outcome, peer.address)
            return self._delay(target, wait_s)
        principal = await line.run(self._access.book.find_by_password, name, password)
        if principal is None or not principal.may_read:
            self._audit.record(name, "session.begin", "", "refused: wrong password", peer.address)
            return self._show(target, _WRONG, 401)
        self._attempts.succeed(source)
        response = self._let_in(principal, peer, target)
        response.set_cookie(
            MARK_COOKIE,
            self._marks.make(name),
            max_age=MARK_AGE_S,
            path=LOGIN_PATH,
            secure=peer.is_encrypted,
            httponly=True,
            samesite="strict",
        )
        return response

    def _let_in(self, principal: Principal, peer: Peer, target: str) -> Response:
        self._audit.record(principal.name, "session.begin", address=peer.address)
        response = RedirectResponse(target, 303, _NO_STORE)
        response.set_cookie(
            SESSION_COOKIE,
            self._access.sessions.make(principal),
            max_age=self._access.sessions.max_age_s,
            path="/",
            secure=peer.is_encrypted,
            httponly=True,
            # A link in a message leads to the page, and nothing else comes along from elsewhere.
            samesite="lax",
        )
        return response

    def _delay(self, target: str, wait_s: float) -> Response:
        seconds = max(1, math.ceil(wait_s))
        page = self._show(target, f"Too many attempts. Try again in {_say_wait(seconds)}.", 429)
        page.headers["Retry-After"] = str(seconds)
        return page

    def _show(self, target: str, problem: str = "", status: int = 200) -> Response:
        said = f'<p class="wrong" role="alert">{html.escape(problem)}</p>' if problem else ""
        page = _PAGE.format(
            lead=_LEADS[self._access.book.has_users],
            action=html.escape(f"{LOGIN_PATH}?next={quote(target, safe='')}", quote=True),
            problem=said,
        )
        return HTMLResponse(page, status, _PAGE_HEADERS)


class _Line:
    """Those whose password is looked at, one after the other."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(_NUM_AT_ONCE)
        self._num_in_line = 0

    @property
    def is_full(self) -> bool:
        return self._num_in_line >= _MAX_IN_LINE

    async def run(
        self, find: Callable[[str, str], Principal | None], name: str, password: str
    ) -> Principal | None:
        if not name:
            return None
        self._num_in_line += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(find, name, password)
        finally:
            self._num_in_line -= 1


def _say_wait(seconds: int) -> str:
    if seconds < 60:
        return "a second" if seconds == 1 else f"{seconds} seconds"
    minutes = math.ceil(seconds / 60)
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def _refuse_foreign(request: Request) -> Response | None:
    """Return the refusal of a form on another site's page, None where it is ours."""
    refusal = check_origin(request.scope, request.headers)
    if refusal is None:
        return None
    return make_error(refusal.status, refusal.code, refusal.message, refusal.hint)


def _peer(request: Request) -> Peer:
    return request.scope["state"]["peer"]


def _read_target(text: str) -> str:
    """Return where to go after signing in: an address of this server, else its first page."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\"))
    return text if is_own and text.isprintable() and len(text) <= 2_000 else "/"


async def _read_form(request: Request) -> tuple[str, str]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            return "", ""
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=8)
    except ValueError:
        return "", ""
    return fields.get("name", [""])[0].strip(), fields.get("password", [""])[0]
