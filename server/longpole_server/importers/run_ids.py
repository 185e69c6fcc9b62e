"""Ids of runs that are made from files."""

import re
from pathlib import Path

from longpole_server.errors import BadRequestError

_MAX_ID_CHARS = 512
DEFAULT_PREFIX = "import/"
# The API's routes below a run: an id that ends like one could not be told from it.
_ROUTE_ENDING = re.compile(
    r"(^|/)(steps(/\d+(/trajectories)?)?|trajectories(/.*)?|diagnosis|metrics|compare"
    r"|stragglers|energy|alerts/replay)$"
)


def make_run_id(name: str) -> str:
    """Return the id of a run imported from a file: `import/` and its stem."""
    run_id = DEFAULT_PREFIX + (Path(name).stem or "log")
    return f"{run_id}_" if _ROUTE_ENDING.search(run_id) else run_id


def check_run_id(run_id: str) -> None:
    """Refuse ids that no run may have.

    Raises:
        BadRequestError: It does not print, is too long, or ends like a route of the API.
    """
    if not run_id.isprintable() or len(run_id) > _MAX_ID_CHARS:
        raise BadRequestError(f"a run id is at most {_MAX_ID_CHARS} printable characters")
    if _ROUTE_ENDING.search(run_id):
        raise BadRequestError(
            f"the run id {run_id!r} ends like a route of the API", hint="choose another run id"
        )
