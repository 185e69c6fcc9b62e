"""Errors inside the SDK. They never reach the trainer: the public calls count and log them.

LongpoleError
├── InvalidSetting         an endpoint, token or option that cannot be used
└── ReceiverUnreachable    nobody answered within the time allowed
"""


class LongpoleError(Exception):
    """Base of all errors of the SDK."""


class InvalidSetting(LongpoleError):  # noqa: N818 - reads as what it is
    """A setting cannot be used; the message says which, and what would do."""


class ReceiverUnreachable(LongpoleError):  # noqa: N818 - reads as what it is
    """The receiver did not answer: refused, timed out, or broke the connection."""
