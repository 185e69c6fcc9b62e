"""Who may call: looked at before any route, for requests and websockets alike.

Programs send `Authorization: Bearer <token>`. People sign in at `/login` and keep a cookie, or
come through a proxy that names them. Browsers send a cookie whoever asks them to: what comes from
another site's page is refused.
"""

import base64
import binascii
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from longpole.host_names import is_own_host
from longpole_server.api.cookies import SESSION_COOKIE, read_cookie
from longpole_server.api.peers import Peer, Proxies, read_peer
from longpole_server.api.responses import make_error
from longpole_server.auth.book import AccessBook
from longpole_server.auth.sessions import Sessions
from longpole_server.auth.vouchers import HEADER, Vouchers
from longpole_server.model.principal import EVERYBODY, Principal
from longpole_server.service.asking import Asker, Shown, asking_as

LOGIN_PATH, LOGOUT_PATH = "/login", "/logout"
CHANGES_PATH = "/api/v1/changes"
# Nothing is told there, or it is told after a check of its own in the protocol's own form.
_OTLP_PATHS = frozenset({"/v1/traces", "/v1/metrics", "/v1/logs"})
OPEN_PATHS = _OTLP_PATHS | {"/api/v1/health", "/api/v1/ready", LOGIN_PATH, LOGOUT_PATH}
# Nothing is told there of any run.
_COMMON_PATHS = frozenset({"/api/v1/services", "/metrics"})
# What agents and RL-Insight's client ask and tell, who send alone. Pages are scraped for all: who
# registers one chooses where agents connect, and who asks for them takes them over.
_SENDER_PATHS = frozenset({"/api/v1/prometheus/targets", "/api/v1/scrape-targets"})
_ADMIN_PATHS = frozenset({"/api/v1/audit"})
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True)
class Access:
    """All that decides who may call.

    Attributes:
        book: Users and tokens.
        sessions: Of people's browsers.
        proxies: Who may stand before this server.
        proxy_role: What people may do whom a proxy names and the book does not know.
        hosts: Names under which browsers may call where nobody is asked for credentials; None:
            under any.
        vouchers: Says for whom another server asks; None where there is no other.
    """

    book: AccessBook
    sessions: Sessions
    proxies: Proxies = field(default_factory=Proxies)
    proxy_role: str = "viewer"
    hosts: frozenset[str] | None = None
    vouchers: Vouchers | None = None

    def find_peer(self, scope: Scope, headers: Headers) -> Peer:
        """Return who stands at the other end, also of a server that asks for somebody."""
        value = headers.get(HEADER)
        voucher = self.vouchers.read(value) if self.vouchers is not None and value else None
        if voucher is None:
            return read_peer(scope, headers, self.proxies)
        if not voucher.address:
            return replace(read_peer(scope, headers, Proxies()), is_server=True)
        return Peer(voucher.address, voucher.is_encrypted, voucher.user)

    def find_by_header(self, authorization: str | None) -> Principal | None:
        """Return whose token an `Authorization` header holds, None without a valid one."""
        scheme, _, credentials = (authorization or "").partition(" ")
        token = credentials.strip()
        if scheme.lower() == "basic":
            try:
                token = base64.b64decode(token, validate=True).partition(b":")[2].decode()
            except (binascii.Error, ValueError):
                return None
        elif scheme.lower() != "bearer":
            return None
        return self.book.find_by_token(token)

    def find_sender(self, authorization: str | None) -> Principal | None:
        """Return who may send telemetry with this header, None when nobody may."""
        if self.book.is_open:
            return EVERYBODY
        principal = self.find_by_header(authorization)
        return principal if principal is not None and principal.may_send else None

    def find_session(self, cookies: str | None) -> Principal | None:
        """Return whose session a `Cookie` header holds."""
        value = read_cookie(cookies, SESSION_COOKIE)
        return self.sessions.find(value) if value is not None else None

    def end_session(self, cookies: str | None) -> None:
        """End the session that a `Cookie` header holds."""
        value = read_cookie(cookies, SESSION_COOKIE)
        if value is not None:
            self.sessions.end(value)

    def find_by_proxy(self, peer: Peer) -> Principal | None:
        """Return whom a trusted proxy names: with the book's role where it knows them."""
        if peer.user is None:
            return None
        known = self.book.find_by_subject(f"user/{peer.user}")
        if known is not None:
            return known
        role = "admin" if self.proxy_role == "admin" else "viewer"
        return Principal(peer.user, role, subject=f"proxy/{peer.user}")


class AccessMiddleware:
    """Lets in who may, and says to everything behind it who asks.

    Args:
        app: What is behind it.
        access: Decides.
        own_paths: Of routes that check credentials themselves, in the way of their protocol.
    """

    def __init__(
        self, app: ASGIApp, access: Access, own_paths: frozenset[str] = frozenset()
    ) -> None:
        self._app = app
        self._access = access
        self._open_paths = OPEN_PATHS | own_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or refuse."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        peer = self._access.find_peer(scope, headers)
        scope = {**scope, "client": (peer.address, 0) if peer.address else None}
        scope["state"] = {**scope.get("state", {}), "peer": peer}
        if scope["path"] in self._open_paths:
            refusal = self._check_open_path(scope, headers)
            answer = self._app if refusal is None else _refuse(scope, refusal)
            await answer(scope, receive, send)
            return
        principal, refusal = self._admit(scope, headers, peer)
        if refusal is not None:
            await _refuse(scope, refusal)(scope, receive, send)
            return
        shown = Shown(
            headers.get("authorization", ""),
            headers.get("cookie", ""),
            peer.is_encrypted,
            peer.user,
        )
        with asking_as(Asker(principal, peer.address, shown)):
            if scope["type"] == "websocket":
                send = self._ending_with(principal, headers.get("cookie"), send)
            await self._app(scope, receive, send)

    def _admit(
        self, scope: Scope, headers: Headers, peer: Peer
    ) -> tuple[Principal, "Refusal | None"]:
        access = self._access
        if peer.is_server and scope["path"] == CHANGES_PATH:
            return EVERYBODY, None
        by_header = access.find_by_header(headers.get("authorization"))
        if by_header is not None:
            return by_header, check_role(by_header, scope)
        if access.book.is_open:
            refusal = check_host(headers, access.hosts) or check_origin(scope, headers)
            return EVERYBODY, refusal
        principal = access.find_session(headers.get("cookie")) or access.find_by_proxy(peer)
        if principal is None:
            return EVERYBODY, _who_are_you(scope, headers)
        return principal, check_origin(scope, headers) or check_role(principal, scope)

    def _check_open_path(self, scope: Scope, headers: Headers) -> "Refusal | None":
        """Return why not even what is told to everybody is told.

        Telemetry is judged where it is received, by where it comes from: a sender may have a name
        of its own for this machine.
        """
        if scope["path"] in _OTLP_PATHS and scope.get("method") == "POST":
            return None
        if not self._access.book.is_open:
            return check_origin(scope, headers)
        return check_host(headers, self._access.hosts) or check_origin(scope, headers)

    def _ending_with(self, principal: Principal, cookies: str | None, send: Send) -> Send:
        """End a websocket when its owner's secret is taken back, or they signed out.

        It may be open for days.
        """
        if not principal.subject or principal.subject.startswith("proxy/"):
            return send
        is_of_session = self._access.find_session(cookies) == principal

        async def send_while_known(message: Message) -> None:
            known = (
                self._access.find_session(cookies)
                if is_of_session
                else self._access.book.find_by_subject(principal.subject)
            )
            if message["type"] == "websocket.send" and (known is None or known != principal):
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
                raise ConnectionAbortedError("its owner may not call any more")
            await send(message)

        return send_while_known


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not let in. `login` is where a person may sign in, None for programs."""

    status: int
    code: str
    message: str
    hint: str
    login: str | None = None


def check_role(principal: Principal, scope: Scope) -> Refusal | None:
    """Return why a known principal may not ask for this, None when they may."""
    path, method = scope["path"], scope.get("method", "GET")
    if path in _COMMON_PATHS:
        return None
    if path in _SENDER_PATHS or path.startswith("/api/v1/import"):
        may = principal.may_send and principal.projects is None
    elif path in _ADMIN_PATHS:
        may = principal.may_change and principal.projects is None
    elif path == CHANGES_PATH:
        may = principal.may_read and principal.projects is None
    elif method in _SAFE_METHODS or not path.startswith("/api/"):
        may = principal.may_read
    else:
        may = principal.may_change
    if may:
        return None
    return Refusal(
        403,
        "forbidden",
        f"{principal.name} ({principal.role}) may not do this",
        "ask who runs this server for a role that may: `longpole access --help`",
    )


def check_origin(scope: Scope, headers: Headers) -> Refusal | None:
    """Return why a browser's request comes from another site's page, None when it does not.

    A browser says where a page is from; programs do not, and send no cookie unasked.
    """
    if scope["type"] == "http" and scope["method"] in _SAFE_METHODS:
        return None
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if site is not None:
        is_own = site in {"same-origin", "none"}
    else:
        peer: Peer = scope["state"]["peer"]
        is_own = origin is None or _is_own_origin(origin, headers, peer.is_encrypted)
    if is_own:
        return None
    return Refusal(
        403,
        "cross_origin",
        "a page of another site may not ask for this",
        "behind a proxy, let it pass the Host header on unchanged",
    )


def _is_own_origin(origin: str, headers: Headers, is_encrypted: bool) -> bool:
    """Tell whether a page is of the name, port and scheme under which this server is asked.

    Who is on the way may write a page of the same name that comes without TLS. The other way round
    the page is the safer one: a proxy ended TLS that nobody named to this server.
    """
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.netloc.lower() != headers.get("host", "").lower():
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and not is_encrypted)


def check_host(headers: Headers, hosts: frozenset[str] | None) -> Refusal | None:
    """Return why a name is not this server's: a stranger's name may point at this machine."""
    header = headers.get("host", "")
    if hosts is None or is_own_host(header, hosts):
        return None
    return Refusal(
        403,
        "unknown_host",
        f"this server is not known as {header[:100]!r}",
        "without credentials it answers to localhost alone; set --public-url, or a token",
    )


def _who_are_you(scope: Scope, headers: Headers) -> Refusal:
    wants_page = scope["type"] == "http" and "text/html" in headers.get("accept", "")
    query = scope.get("query_string", b"").decode("latin-1")
    target = scope["path"] + (f"?{query}" if query else "")
    return Refusal(
        401,
        "unauthorized",
        "this server wants to know who you are",
        "send `Authorization: Bearer <token>`, or sign in at /login",
        f"{LOGIN_PATH}?next={quote(target, safe='')}" if wants_page else None,
    )


def _refuse(scope: Scope, refusal: Refusal) -> ASGIApp:
    if scope["type"] == "websocket":
        return _close
    if refusal.login is not None:
        return RedirectResponse(refusal.login, 303, {"Cache-Control": "no-store"})
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    return make_error(refusal.status, refusal.code, refusal.message, refusal.hint, headers)


async def _close(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
