"""Ranges of steps as callers ask for them: inclusive, None is open."""

from longpole_server.errors import BadRequestError


def check_range(first: int | None, last: int | None, prefix: str = "") -> None:
    """Refuse a range that ends before it begins.

    Args:
        first: First step.
        last: Last step.
        prefix: Of the parameters' names, for the hint.

    Raises:
        BadRequestError: It does.
    """
    if first is not None and last is not None and first > last:
        raise BadRequestError(
            f"{prefix}from {first} to {last} is no range of steps",
            hint=f"`{prefix}from` is at most `{prefix}to`",
        )
