"""What decides who may call: built here for the application."""

import contextlib
import socket
from collections.abc import Generator
from urllib.parse import urlsplit

from longpole_server.api.access import Access
from longpole_server.api.login import Door
from longpole_server.api.peers import Proxies, parse_networks
from longpole_server.auth.attempts import Attempts
from longpole_server.auth.audit import AuditLog
from longpole_server.auth.book import AccessBook
from longpole_server.auth.ended import EndedSessions
from longpole_server.auth.marks import Marks
from longpole_server.auth.sessions import Sessions, check_key, load_key
from longpole_server.auth.vouchers import Vouchers
from longpole_server.config import Config, is_loopback
from longpole_server.errors import ConfigError

_DAY_S = 86_400
# Who writes into the access file is known to the system alone.
_BY_FILE = "the access file"


@contextlib.contextmanager
def open_door(config: Config) -> Generator[Door]:
    """Open users, tokens, sessions and the audit log.

    Raises:
        ConfigError: The access file, the session key or an option is wrong.
    """
    key = check_key(config.session_key) or load_key(config.data_dir / "session.key")
    with contextlib.closing(AuditLog(config.data_dir / "audit.jsonl")) as audit:
        book = AccessBook(
            config.access_path,
            config.token,
            on_change=lambda change: audit.record(_BY_FILE, "access.change", change),
        )
        age_s = config.session_days * _DAY_S
        access = Access(
            book,
            Sessions(book, key, age_s, EndedSessions(config.data_dir / "sessions.ended", age_s)),
            _read_proxies(config),
            config.proxy_role,
            _list_hosts(config),
            Vouchers(key),
        )
        yield Door(access, Attempts(), Marks(key), audit)


def may_ask_sql(door: Door, password: str | None) -> bool:
    """Tell whether a password may ask in SQL, where no project is kept from anybody."""
    book = door.access.book
    if book.is_open:
        return True
    principal = book.find_by_token(password) if password is not None else None
    return principal is not None and principal.may_read and principal.projects is None


def _read_proxies(config: Config) -> Proxies:
    try:
        networks = parse_networks(config.proxy_addresses or "")
    except ValueError as error:
        raise ConfigError(f"--proxy-addresses: {error}") from error
    header = config.proxy_user_header
    secret = check_key(config.proxy_secret, "proxy's secret")
    return Proxies(networks, header.strip().lower() if header is not None else None, secret)


def _list_hosts(config: Config) -> frozenset[str] | None:
    """Return the names under which a server for this machine alone may be called."""
    if config.insecure or not is_loopback(config.host):
        return None
    names = {"localhost", socket.gethostname().lower()}
    if config.public_url is not None:
        names.add((urlsplit(config.public_url).hostname or "").lower())
    return frozenset(names)
