"""Who this agent is: an id that stays with its data directory, and one of this start."""

import os
import re
from pathlib import Path

from longpole.spool.durable import sync_directory

_ID_BYTES = 8
_BOOT_BYTES = 6
_ID = re.compile(r"[0-9a-f]{16}")


def load_origin(directory: Path) -> str:
    """Return `<agent>/<boot>`: the first half is kept in `directory`, the second is new."""
    path = directory / "agent_id"
    agent_id = path.read_text("ascii", "replace").strip() if path.exists() else ""
    # What a crash or a damaged disk left there would be refused with every batch.
    if not _ID.fullmatch(agent_id):
        agent_id = os.urandom(_ID_BYTES).hex()
        write_atomically(path, agent_id + "\n")
    return f"{agent_id}/{os.urandom(_BOOT_BYTES).hex()}"


def write_atomically(path: Path, text: str) -> None:
    """Replace the content of `path` so that readers see all of it or what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)
