"""Whether this process may change what a store is made of, looked at before the engine does.

The engine does not say that it may not: it tries again to remove such a part for ever, and a table
that a migration drops is waited for as long.
"""

import os
import pwd
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from longpole_server.errors import StoreError

_SHOWN = 3
# With the capabilities that a command of root's keeps where it acts as the owner.
_EFFECTIVE = os.access in os.supports_effective_ids


def check_changeable(store: Path) -> None:
    """Look at every directory of an embedded store that nobody else has open.

    What the engine changes it makes anew and moves, so that directories decide.

    Raises:
        StoreError: Some cannot be changed; the message names the first of them, and the mend.
    """
    _refuse(store, list(_find_closed(store)))


def check_openable(store: Path) -> None:
    """Look at the directory of an embedded store, its lock and what else lies right in it.

    Raises:
        StoreError: As `check_changeable`.
    """
    _refuse(store, _find_forbidden([store, *_list(store)], os.R_OK | os.W_OK))


def check_beside(store: Path, written: Iterable[str], read: Iterable[str]) -> None:
    """Look at what a server keeps beside its store, as far as there is any.

    Args:
        store: Of an embedded store, be it there or not.
        written: Names of files and of flat directories that a server writes.
        read: Names of files that it reads.

    Raises:
        StoreError: As `check_changeable`.
    """
    changed = [store.with_name(name) for name in written]
    content = [each for path in changed for each in _list(path)]
    forbidden = _find_forbidden([*changed, *content], os.R_OK | os.W_OK)
    forbidden += _find_forbidden([store.with_name(name) for name in read], os.R_OK)
    _refuse(store, forbidden)


def name_user(uid: int) -> str:
    """Return a user's name and number; the number alone of one whom this system does not know."""
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=_EFFECTIVE)


def _find_closed(directory: Path) -> Iterator[Path]:
    if not _may(directory, os.R_OK | os.W_OK | os.X_OK):
        yield directory
        return
    with os.scandir(directory) as entries:
        inner = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    for path in inner:
        yield from _find_closed(path)


def _find_forbidden(paths: Iterable[Path], mode: int) -> list[Path]:
    return [path for path in paths if path.exists() and not _may(path, mode)]


def _list(path: Path) -> list[Path]:
    if not path.is_dir() or not _may(path, os.R_OK | os.X_OK):
        return []
    return sorted(path.iterdir())


def _refuse(store: Path, closed: Sequence[Path]) -> None:
    # A server that runs may have removed some meanwhile.
    owners = {path: uid for path in closed if (uid := _find_owner(path)) is not None}
    if not owners:
        return
    shown = ", ".join(map(str, list(owners)[:_SHOWN]))
    more = f" and {len(owners) - _SHOWN:,} more" if len(owners) > _SHOWN else ""
    names = ", ".join(sorted(map(name_user, set(owners.values()))))
    raise StoreError(
        f"{name_user(os.geteuid())} may not change {shown}{more}, which"
        f" {'belongs' if len(owners) == 1 else 'belong'} to {names}",
        hint=f"stop what runs on it, then as root: {_find_mend(store)}",
    )


def _find_owner(path: Path) -> int | None:
    """Return whose a path is, None of one that is gone."""
    try:
        return path.stat().st_uid
    except OSError:
        return None


def _find_mend(store: Path) -> str:
    """Return the command that makes all of it belong to one user again.

    That of the store, which may be another than that of the volume it lies on. Where the store
    itself is somebody else's, this user is meant to have it, or the wrong one asks.
    """
    # Systemd's directory is a link, which is followed for the slash at its end alone.
    parent = shlex.quote(f"{store.parent}/")
    if _may(store, os.W_OK):
        return f"chown -R --reference={shlex.quote(str(store))} {parent}"
    return f"chown -R {os.geteuid()}:{os.getegid()} {parent}; or run this as the owner"
