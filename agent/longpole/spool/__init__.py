"""An append-only log of byte records on disk, shared by agent and server.

`spool` is the log, `segment_chain` its files in order, `segment` the format of one file, `durable`
the syncs, the lock and the cursor they need.
"""

from longpole.spool.spool import (
    Spool,
    SpoolError,
    SpoolFullError,
    SpoolLockedError,
    SpoolRecord,
)

__all__ = ["Spool", "SpoolError", "SpoolFullError", "SpoolLockedError", "SpoolRecord"]
