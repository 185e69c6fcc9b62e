"""Commands on a data directory act as whoever it belongs to, so that root leaves no files there.

Root's files in a store are such that the server cannot change or remove, which stops it later.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longpole_server.errors import ConfigError
from longpole_server.store.changeable import name_user

# Of <linux/prctl.h> and <linux/capability.h>.
_KEEP_CAPABILITIES = 8
_CAPABILITY_VERSION = 0x20080522
_STORE = "store"
# What root may do whoever owns a file: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER. A backup lies
# where root alone may write, and systemd keeps what it made users for where root alone may look.
_KEPT = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3


@dataclass(frozen=True, slots=True)
class Caller:
    """Who called a command that acts as somebody else now.

    Attributes:
        uid, gid: Theirs.
    """

    uid: int
    gid: int

    def shut(self, directory: Path) -> None:
        """Give a directory that was made just now to whoever called, and keep the owner out of it.

        As far as this process may write there all the same.
        """
        with contextlib.suppress(OSError):
            os.chown(directory, self.uid, self.gid)
            if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
                os.chown(directory, os.geteuid(), os.getegid())

    def take(self, directory: Path) -> None:
        """Give a directory and all in it to whoever called; as far as the system allows it.

        What cannot be given stays with the owner of the data, who may read all of it anyway.
        """
        for path in _walk(directory):
            with contextlib.suppress(OSError):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


def act_as_owner(command: str, *places: Path) -> Caller | None:
    """Become who a server's files belong to, when called by root and they are somebody else's.

    Before anything is opened and any thread is started: to threads that run already the rights
    over files are lost. Files that are made from then on belong to the owner.

    Args:
        command: For the hint of how to do it by hand, e.g. `backup`.
        places: The first that exists tells whose they are; where none does, root acts as itself.

    Returns:
        Who called, None when nothing had to change.

    Raises:
        ConfigError: This root may not become the owner, as in a container without capabilities, or
            not look there.
    """
    if os.geteuid() != 0:
        return None
    looked_at = ((place, _look_at(place)) for place in places)
    place, owner = next(((place, owner) for place, owner in looked_at if owner), (None, None))
    if place is None or owner is None or owner.st_uid == 0:
        return None
    caller = Caller(os.getuid(), os.getgid())
    try:
        _become(owner.st_uid, owner.st_gid)
    except OSError as error:
        uid, gid = owner.st_uid, owner.st_gid
        raise ConfigError(
            f"{place} belongs to {name_user(uid)}, whom this root may not act as"
            f" ({error.strerror}), and root's files would stop the server",
            hint="run it as that user: "
            f"setpriv --reuid={uid} --regid={gid} --clear-groups longpole {command} ...",
        ) from error
    return caller


def act_as_owner_of_data(command: str, data_dir: Path) -> Caller | None:
    """Become who a data directory belongs to, as `act_as_owner` does.

    A volume may be root's, and only the store in it the server's. Links of the owner's, which root
    would follow where the owner may not, are refused.

    Raises:
        ConfigError: As there, or something beside the store is a link.
    """
    caller = act_as_owner(command, data_dir / _STORE, data_dir)
    if caller is not None and (link := _find_link(data_dir)) is not None:
        raise ConfigError(
            f"{link} is a link, and a command of root's would follow it anywhere",
            hint="put there what it leads to, or run this as the owner",
        )
    return caller


def _look_at(place: Path) -> os.stat_result | None:
    try:
        return place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"cannot look at {place}: {error.strerror}") from error


def _find_link(data_dir: Path) -> Path | None:
    """Return a link in a data directory; the engine's own lie deeper in the store."""
    try:
        for path in data_dir.iterdir() if data_dir.is_dir() else ():
            if path.is_symlink():
                return path
            inner = path.iterdir() if path.name == _STORE else _walk(path)
            if (link := next((each for each in inner if each.is_symlink()), None)) is not None:
                return link
    except OSError as error:
        raise ConfigError(f"cannot look at {data_dir}: {error.strerror}") from error
    return None


def _become(uid: int, gid: int) -> None:
    if sys.platform != "linux":
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        return
    system = ctypes.CDLL(None, use_errno=True)
    # This root may have fewer. Whatever is read or imported is so before the rights pause.
    kept = _read_permitted() & _KEPT
    _check(system.prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0))
    # Root's groups may look at more than the owner.
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # Effective, permitted, inheritable; once for the lower 32 capabilities, once for the others.
    sets = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _check(system.capset(header, sets))


def _read_permitted() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0


def _check(answer: int) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _walk(directory: Path) -> Iterator[Path]:
    yield directory
    for parent, directories, files in os.walk(directory):
        yield from (Path(parent, name) for name in (*directories, *files))
