"""Pages of long lists: an opaque cursor says where the next one begins."""

import base64
from collections.abc import Sequence
from typing import TypeVar

from longpole_server.errors import BadRequestError

ItemType = TypeVar("ItemType")

# No list is this long, and every database can count so far.
_MAX_OFFSET = 1 << 53


def cut_page(
    items: Sequence[ItemType], cursor: str | None, limit: int
) -> tuple[Sequence[ItemType], str | None]:
    """Return the page that begins at the cursor, and the cursor of the one after it, if any.

    Raises:
        BadRequestError: The cursor is not one that was handed out.
    """
    start = read_cursor(cursor)
    end = start + limit
    return items[start:end], make_cursor(end) if end < len(items) else None


def make_cursor(offset: int) -> str:
    """Return the cursor of the item with this index."""
    return base64.urlsafe_b64encode(f"o{offset}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> int:
    """Return the index that a cursor stands for, 0 without one.

    Raises:
        BadRequestError: The cursor is not one that was handed out.
    """
    if cursor is None:
        return 0
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        offset = int(text.removeprefix("o"))
    except ValueError:
        offset = -1
    if not 0 <= offset <= _MAX_OFFSET:
        raise BadRequestError(f"no cursor {cursor!r}", hint="send back `next` as it was received")
    return offset
