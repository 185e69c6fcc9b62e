"""Who asks the service: set where a request enters, known to whatever answers it.

A context variable follows a request through coroutines and, where contexts are copied, into
threads. Outside of any request the server itself asks, and sees everything.
"""

import contextlib
from collections.abc import Generator, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field

from longpole_server.errors import ForbiddenError
from longpole_server.model.principal import EVERYBODY, Principal


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody showed to be let in: another server is shown the same.

    Attributes:
        authorization, cookies: The headers, empty without one.
        is_encrypted: Whether they speak TLS.
        user: Whom a trusted proxy named, None where none did.
    """

    authorization: str = field(default="", repr=False)
    cookies: str = field(default="", repr=False)
    is_encrypted: bool = False
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Asker:
    """Somebody, the address they ask from, empty for the server itself, and what they showed."""

    principal: Principal
    address: str = ""
    shown: Shown = Shown()


_SERVER = Asker(EVERYBODY)
_asker: ContextVar[Asker] = ContextVar("longpole_asker", default=_SERVER)


@contextlib.contextmanager
def asking_as(asker: Asker) -> Generator[None]:
    """Let what happens inside be asked by somebody."""
    before = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(before)


def who_asks() -> Asker:
    """Return who asks."""
    return _asker.get()


def find_reader() -> Principal:
    """Return who asks, when they may read.

    Raises:
        ForbiddenError: They may send alone.
    """
    principal = _asker.get().principal
    if not principal.may_read:
        raise ForbiddenError("this token may send telemetry, and not read")
    return principal


def what_is_seen() -> Hashable:
    """Return a key of what the asker may see: the same for all who see the same."""
    projects = _asker.get().principal.projects
    return None if projects is None else tuple(sorted(projects))
