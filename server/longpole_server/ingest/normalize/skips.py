"""One unreadable record is counted and left out; it never stops the ones around it."""

import logging
from types import TracebackType

_log = logging.getLogger(__name__)


class SkipGuard:
    """A block that ends quietly when it fails. The first failure is logged, all are counted.

    Args:
        what: The kind of record, for the log.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self.num_skipped = 0

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if not self.num_skipped:
            _log.error(
                "A %s cannot be read and is skipped; more of them are only counted",
                self._what,
                exc_info=error,
            )
        self.num_skipped += 1
        return True
