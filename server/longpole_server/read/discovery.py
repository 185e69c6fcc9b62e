"""Registered Prometheus pages."""

from collections.abc import Sequence

from longpole_server.model.discovery import ScrapeTarget
from longpole_server.read.pool import ClientPool

_TARGETS = """
SELECT * FROM scrape_targets FINAL
WHERE seen_ns >= fromUnixTimestamp64Nano({since_ns:Int64})
ORDER BY job_name, target, host, sender_address
"""


def list_scrape_targets(pool: ClientPool, since_ns: int) -> Sequence[ScrapeTarget]:
    """Return the pages registered since a time, by job and target."""
    return pool.select(ScrapeTarget, _TARGETS, {"since_ns": since_ns})
