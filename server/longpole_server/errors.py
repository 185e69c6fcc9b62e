"""Errors of the server.

    ServerError
    ├── ConfigError           the operator asked for something impossible
    ├── ForbiddenError        the caller is known, and may not do this
    ├── NotFoundError         no such run, step, trajectory, ...
    ├── BadRequestError       the caller sent something we refuse, with the reason
    │   ├── TooLargeError     over a size limit
    │   └── QueryRefusedError people's own SQL that does more than read what it may
    ├── UnreadableLogError    a log file with nothing to diagnose in it
    ├── StoreError            the database refused or failed
    │   ├── StoreLimitError   a query took more time or memory than it may
    │   └── StoreLockedError  another process holds the data directory
    ├── BusyError             a queue is full: come back after `retry_after_s`
    └── DeliveryError         a channel did not take a message

Foreign exceptions are translated once, where they enter (store client, receivers, file reader).
The API turns each class into one HTTP status, the command line into one exit code.
"""


class ServerError(Exception):
    """Base of all errors of the server.

    Args:
        message: One sentence for people.
        hint: What to do about it, or an empty string.
    """

    code = "internal"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(ServerError):
    """The operator asked for something impossible."""

    code = "config"


class ForbiddenError(ServerError):
    """The caller is known, and may not do this."""

    code = "forbidden"


class NotFoundError(ServerError):
    """The thing asked for does not exist."""

    code = "not_found"


class BadRequestError(ServerError):
    """The caller sent something that is refused."""

    code = "bad_request"


class TooLargeError(BadRequestError):
    """The caller sent more than a limit allows."""

    code = "too_large"


class QueryRefusedError(BadRequestError):
    """A query of people's own does more than read what it may.

    Args:
        message: One sentence for people.
        number: ClickHouse's number for this kind of error.
        hint: What to do about it, or an empty string.
    """

    code = "query_refused"

    def __init__(self, message: str, number: int, hint: str = "") -> None:
        super().__init__(message, hint)
        self.number = number


class UnreadableLogError(ServerError):
    """A log file holds nothing that can be diagnosed."""

    code = "unreadable_log"


class StoreError(ServerError):
    """The database refused or failed."""

    code = "store"


class StoreLimitError(StoreError):
    """A query took more time or memory than it may; one for less may do."""


class WriterAwayError(ServerError):
    """The server that takes data and judges does not answer this one."""

    code = "writer_away"


class StoreLockedError(StoreError):
    """Another process holds the data directory."""

    code = "store_locked"


class BusyError(ServerError):
    """A queue is full; the caller may come back.

    Args:
        message: One sentence for people.
        retry_after_s: Seconds after which a retry makes sense.
    """

    code = "busy"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message, hint=f"Retry after {retry_after_s:g} s.")
        self.retry_after_s = retry_after_s


class DeliveryError(ServerError):
    """A channel did not take a message. The text never holds a secret.

    Args:
        message: One sentence for people.
        retry_after_s: Seconds that the channel asks to wait, None when it does not say.
        is_final: Whether the same message would never be taken.
    """

    code = "delivery"

    def __init__(
        self, message: str, retry_after_s: float | None = None, *, is_final: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.is_final = is_final
