"""Which run a process belongs to, from its resource attributes."""

import re

from longpole.conventions import attributes as names
from longpole_server.ingest.normalize.attributes import Values, get_text

# Words that end a route below `/api/v1/runs/{run}`.
ROUTE_WORDS = frozenset(
    {
        "steps", "diagnosis", "compare", "metrics", "trajectories", "alerts", "replay",
        "stragglers", "energy",
    }
)  # fmt: skip
# Routes of these words go on with one more segment.
_PARENT_WORDS = frozenset({"steps", "trajectories"})
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_MAX_CHARS = 256
UNKNOWN_SERVICE = "unknown_service"
UNKNOWN_HOST = "unknown_host"


def find_run_id(values: Values) -> str | None:
    """Return the run id that a process declares, or None."""
    run_id = get_text(values, names.RUN_ID)
    if run_id is not None and run_id.strip(" /"):
        return run_id
    for project_key, name_key in (
        (names.PROJECT, names.LEGACY_EXPERIMENT),
        (names.LEGACY_PROJECT, names.LEGACY_EXPERIMENT),
        (names.PROJECT, names.RUN_NAME),
    ):
        project, name = get_text(values, project_key), get_text(values, name_key)
        if project is not None and name is not None:
            return f"{project}/{name}"
    return None


def invent_run_id(service: str, host: str) -> str:
    """Return the id of a process that declares none: nothing is dropped for that."""
    return f"{service or UNKNOWN_SERVICE}@{host or UNKNOWN_HOST}"


def make_addressable(run_id: str) -> str:
    """Return the id as the API can address it.

    A segment that would be taken for a route gets a `_`, characters that do not print become one,
    and what is longer than an address should be is cut.
    """
    cleaned = _UNPRINTABLE.sub("_", run_id).strip(" /")[:_MAX_CHARS].rstrip(" /")
    segments = cleaned.split("/")
    if segments[-1] in ROUTE_WORDS:
        segments[-1] += "_"
    if len(segments) > 1 and segments[-2] in _PARENT_WORDS:
        segments[-2] += "_"
    return "/".join(segments)
