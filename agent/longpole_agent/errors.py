"""Errors of the agent.

    AgentError
    ├── ConfigError      the operator asked for something impossible
    ├── DiskError        the disk refused: nothing can be kept any more
    ├── MalformedError   a request is not what it says it is
    └── BusyError        too much is in flight: come back after `retry_after_s`

Foreign exceptions are translated where they enter. The receivers turn each class into one status,
the command line into one exit code.
"""


class AgentError(Exception):
    """Base of all errors of the agent.

    Args:
        message: One sentence for people.
        hint: What to do about it, or an empty string.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.message = message
        self.hint = hint


class ConfigError(AgentError):
    """The operator asked for something impossible."""


class DiskError(AgentError):
    """The disk refused: nothing can be kept any more."""


class MalformedError(AgentError):
    """A request is not what it says it is."""


class BusyError(AgentError):
    """Too much is in flight; the caller may come back.

    Args:
        message: One sentence for people.
        retry_after_s: Seconds after which a retry makes sense.
    """

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
